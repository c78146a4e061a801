"""The methods that hunt: make programs, run them on the compilers and store every bug once; `watch` hunts on a new
release."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Unpack

from driftline.campaign.authoring.author import GENERATOR as LLM
from driftline.campaign.authoring.author import Author
from driftline.campaign.explain.diagnosis import unreported
from driftline.campaign.explain.explanations import explain_bugs
from driftline.campaign.hunt.crew import Crew, LocalCrew
from driftline.campaign.hunt.foremen import Foremen
from driftline.campaign.hunt.hunter import Hunter, NothingHunted
from driftline.campaign.hunt.plan import HuntPlan, ModelPlan, last_model
from driftline.campaign.hunt.result import HuntResult
from driftline.campaign.hunt.settings import HuntKeywords, HuntSettings
from driftline.campaign.hunt.watching import (
    WatchKeywords,
    WatchResult,
    WatchSettings,
    release_of,
    replay_all,
    require_compilers,
    settle,
    watched_targets,
)
from driftline.checking.checker import Checker
from driftline.checking.result import ReplayAnswer
from driftline.cluster.joined import ClusterAddress, cluster_crew
from driftline.core.closing import closing_step
from driftline.core.errors import DriftlineError
from driftline.core.shown_settings import shows
from driftline.core.target import Target
from driftline.events import Listener, ignore, says
from driftline.execute import sandbox
from driftline.execute.pool import Pool
from driftline.llm.allowance import Allowance, stored_allowance
from driftline.llm.client import ChatClient
from driftline.llm.model import RecordedModel
from driftline.llm.settings import llm_settings
from driftline.store import Bug
from driftline.workbench.opened import OpenBench


class HuntingBench(OpenBench):
    """The methods that make programs and look for bugs with them."""

    @shows(HuntSettings)
    def hunt(
        self,
        *,
        asked: HuntSettings | None = None,
        spent: float = 0.0,
        listener: Listener = ignore,
        **keywords: Unpack[HuntKeywords],
    ) -> HuntResult:
        """Make programs, run them on the compilers, and keep every bug once.

        The settings are the fields of `HuntSettings`, as keywords or as a value in `asked`. A resumed hunt keeps its
        original settings, except that a longer time may be given. `spent`: seconds of the time that passed before the
        call. On a `cluster` ("ray://HOST:10001", "HOST:6379", "auto", or "local:2" for two nodes on this machine) the
        hunt makes the same programs and turns, and finds the same bugs, as without.
        """
        asked = asked or HuntSettings(**keywords)
        planned = asked.planned(self._store, self._plugins)
        plan, author = planned.plan, None
        joining = ClusterAddress.parse(asked.cluster) if asked.cluster else None
        if joining and LLM in plan.generators:
            raise DriftlineError(
                "Programs of a language model are not written on a cluster; leave out --cluster or llm."
            )
        with Pool() as pool, ExitStack() as stack:  # a pool of its own, which ends running tasks when the time is over
            if LLM in plan.generators:
                plan, author = self._author(pool, plan, asked)
                stack.callback(author.close)
            if joining:
                crew: Crew = stack.enter_context(cluster_crew(joining, self._jobs, self._store, self._library))
            else:
                foremen = stack.enter_context(Foremen(self._jobs))
                crew = LocalCrew(pool, self._store, self._jobs, self._library, foremen)
            hunter = Hunter(pool, self._store, plan, listener=listener, crew=crew, author=author)
            result = hunter.run(planned.going, planned.skipped, spent=spent)
        if asked.diagnose:
            self._explain_new(result, listener)
        return result

    def _explain_new(self, result: HuntResult, listener: Listener) -> None:
        """Diagnose the new bugs of a hunt, and add bugs that were met meanwhile to the result."""
        worth = unreported(result.new, result.bugs)
        said = "explaining what was found"
        with closing_step(result.failed_steps, said, "driftline diagnose explains one bug at a time"):
            result.explained = explain_bugs(self._warm(), self._store, worth, library=self._library, listener=listener)
        result.failed_steps += result.explained.failed_steps
        for bug in result.explained.met.values():
            result.add(bug, new=bug.id in result.explained.new)

    @shows(WatchSettings)
    def watch(
        self, compilers: Sequence[str], *, listener: Listener = ignore, **keywords: Unpack[WatchKeywords]
    ) -> WatchResult:
        """Replay every known bug of these compilers on their newest release, and hunt there: one round of watching.

        The keywords are the fields of `WatchSettings`. The release is the newest on the package index, including
        pre-releases unless `pre` is false, or `release`; it is installed into its own environment. With `installed`,
        the installed release is used. `seconds` is the time of the hunt (0: no hunt), or `programs` the number of
        programs for each compiler; `accept` is arithmetic that does not count as a finding. The result says what is
        new, back and fixed since the last round in this store.
        """
        from driftline.perf.replay import replay_cost

        def measure(bug: Bug, target: Target) -> tuple[ReplayAnswer, str]:
            found = replay_cost(self._store, bug.id, self._warm(), target, listener=listener)
            return found.answer, found.reason

        asked = WatchSettings(**keywords)
        require_compilers(compilers)
        said = says(listener, "watch")
        targets = watched_targets(compilers, asked, said)
        replayed = list(replay_all(self._store, self._warm(), targets, measure, said))
        result = WatchResult({name: release_of(target) for name, target in targets.items()})
        if asked.seconds or asked.programs:
            hunted = HuntSettings(
                seconds=None if asked.programs else asked.seconds,
                programs=asked.programs,
                targets=[str(target) for target in targets.values()],
                seed=asked.seed,
                accept=asked.accept,
            )
            try:
                result.hunt = self.hunt(asked=hunted, listener=listener)
            except NothingHunted as error:  # the replays still count
                result.not_hunted = str(error)
        result.bugs = settle(self._store, replayed, result.hunt)
        return result

    def _author(self, pool: Pool, plan: HuntPlan, asked: HuntSettings) -> tuple[HuntPlan, Author]:
        """Return the author that writes programs with a language model, and the plan that names the model."""
        from driftline.patterns.rule_book import CompilerRules

        if (lacking := sandbox.missing()) and sandbox.wanted():
            raise DriftlineError(
                f"Programs of a language model are run in a sandbox alone, and {lacking}: set {sandbox.SWITCH}=off to"
                " run them without one."
            )
        told = plan.llm or (last_model(self._store) if asked.llm_replay else None)
        if asked.llm_replay and told is None:
            raise DriftlineError(f"The store {self._store.path} holds no hunt with a language model to replay.")
        settings = llm_settings(asked.llm, model=told.model if told else "", replay=asked.llm_replay)
        if told:
            settings = told.settings(settings)
        if told and asked.llm_tokens is None and asked.llm_cost is None:
            allowance = stored_allowance(told.tokens, told.cost)
        else:
            allowance = Allowance.of(settings, asked.llm_tokens, asked.llm_cost)
        client = None
        if not asked.llm_replay:
            client = ChatClient(settings)
            client.require_model(settings.model, settings.analyst)
        author = Author(
            self._store,
            RecordedModel(self._store, client),
            settings,
            CompilerRules(Checker(pool, self._jobs), self._store),
            allowance,
            seed=plan.seed,
        )
        return replace(plan, llm=ModelPlan.of(settings, allowance)), author
