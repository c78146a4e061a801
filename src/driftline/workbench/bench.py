"""A store with everything that can be done to it: what makes programs and runs them is here, the rest in its bases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from driftline.api import CheckRun
from driftline.campaign.authoring.author import GENERATOR as LLM
from driftline.campaign.authoring.author import Author
from driftline.campaign.check.layering import look_inside
from driftline.campaign.check.scripts import ScriptKeywords, ScriptSettings, check_script_file
from driftline.campaign.check.settings import CheckKeywords, CheckSettings
from driftline.campaign.explain.diagnosis import unreported
from driftline.campaign.explain.explanations import explain_bugs
from driftline.campaign.hunt.crew import Crew, LocalCrew
from driftline.campaign.hunt.foremen import Foremen
from driftline.campaign.hunt.hunter import Hunter, NothingHunted
from driftline.campaign.hunt.plan import HuntPlan, ModelPlan, last_model, new_plan, resumed_plan
from driftline.campaign.hunt.result import HuntResult
from driftline.campaign.hunt.varied import check_settings_way, vary_settings
from driftline.campaign.hunt.watching import (
    WatchResult,
    release_of,
    replay_all,
    require_compilers,
    settle,
    watched_targets,
)
from driftline.causes import load
from driftline.checking.checker import Checker, Skipped
from driftline.checking.result import CheckResult, ReplayAnswer
from driftline.cluster.joined import ClusterAddress, cluster_crew
from driftline.core.case import CheckOptions
from driftline.core.closing import closing_step
from driftline.core.config import default_store
from driftline.core.errors import DriftlineError
from driftline.core.program import Program
from driftline.core.target import Target, parse_targets
from driftline.events import Listener, ignore, says
from driftline.execute import sandbox
from driftline.execute.pool import Pool
from driftline.inputs.foreign.specs import parse_specs
from driftline.instabilities.frameworks import DEFAULT_FRAMEWORKS, parse_frameworks
from driftline.instabilities.run import SOLVING, RunPlan, RunResult, run_models
from driftline.llm.allowance import Allowance, stored_allowance
from driftline.llm.client import ChatClient
from driftline.llm.model import RecordedModel
from driftline.llm.settings import llm_settings
from driftline.scenarios.check import ScriptCheck
from driftline.store import Bug
from driftline.workbench.explaining import ExplainingBench
from driftline.workbench.sharing import SharingBench
from driftline.workbench.timing import TimingBench

if TYPE_CHECKING:
    from driftline.patterns.audit import AuditResult


def open(
    store: str | Path | None = None,
    *,
    plugins: Sequence[str] = (),
    jobs: int | None = None,
    causes: Sequence[str | Path] = (),
) -> Workbench:
    """Open a store, or make it; without a name, the one that the command line would take.

    `plugins` are Python files that register further backends; `jobs` is how much runs at the same time (by default as
    much as there are processors, if memory suffices); `causes` are folders of causes of your own. Use it in a `with`
    statement, or call `close()`: it holds worker processes.
    """
    library = load([Path(folder) for folder in causes])
    return Workbench(Path(store) if store else default_store(), plugins=plugins, jobs=jobs, library=library)


class Workbench(ExplainingBench, TimingBench, SharingBench):
    """A store with everything that can be done to it. `driftline.open` makes one. Not for several threads."""

    def check(
        self,
        program: Any,
        example: Any = None,
        *,
        asked: CheckSettings | None = None,
        require: Callable[[Program], None] = lambda program: None,
        listener: Listener = ignore,
        **settings: Unpack[CheckKeywords],
    ) -> CheckResult:
        """Run a program on many compilers and say which of them is wrong; failures go into the store.

        It takes what `driftline.check` takes: a live torch model with example inputs, an ONNX model, or the name of a
        program, with the fields of `CheckSettings` as keywords, or such a value as `asked`. `require` is called with
        the program that is to run, and may refuse it by raising. Workers stay warm between calls.
        """
        asked = asked or CheckSettings(**settings)
        run = CheckRun(self._warm(), self._store, asked, self._plugins, self._library, listener, require)
        return run.check(program, example)

    def check_script(
        self, program: str | Path, *, listener: Listener = ignore, **settings: Unpack[ScriptKeywords]
    ) -> ScriptCheck:
        """Run a script that calls `torch.compile` itself with and without the compiler; failures go into the store.

        `settings` are the fields of `ScriptSettings`, as for `driftline.check_script`.
        """
        return check_script_file(self._warm().pool, self._store, str(program), ScriptSettings(**settings), listener)

    def look_inside(self, result: CheckResult, *, taps: str = "auto", listener: Listener = ignore) -> list[Any]:
        """Show the error of a check layer by layer: a body for each target that ran, as docs/json.md describes it."""
        return look_inside(self._warm(), self._store, result, taps=taps, listener=listener)

    def hunt(
        self,
        *,
        seconds: float | None = None,
        programs: int = 0,
        least: int = 0,
        targets: Sequence[str] | None = None,
        generators: Sequence[str] | None = None,
        inputs: Sequence[str] = HuntPlan.inputs,
        seed: int = 0,
        settings: str = "",
        timeout: float = 60.0,
        accept: Sequence[str] = (),
        resume: bool = False,
        number: int = 0,
        diagnose: bool = False,
        llm: Mapping[str, Any] | None = None,
        llm_tokens: int | None = None,
        llm_cost: float | None = None,
        llm_replay: bool = False,
        shard: str = "",
        cluster: str = "",
        spent: float = 0.0,
        listener: Listener = ignore,
    ) -> HuntResult:
        """Make programs, run them on the compilers, and keep every bug once.

        It ends after `seconds` (ten minutes unless told otherwise) or after `programs` for each target; with `least`
        it takes up to twice as long, until so many programs of each target were judged. `resume` goes
        on with the last hunt that was interrupted, or with that of `number`, with what was asked for then; a longer
        time may be given. `diagnose` explains every new bug afterwards. `accept` is arithmetic that is no finding, as
        for `check`: "reduced-precision" is all of it. `shard` is one of several parts of a hunt, such as "3/8": no
        program is in two of them. `spent` are seconds of the time that went by before the call. `settings="vary"` also
        hunts each compiler with one of its settings changed, a few times; the seed says which. With "loops" several
        settings are changed that say how its loops are made.

        `cluster` is where programs are run and examined: "ray://HOST:10001", "HOST:6379" or "auto" of a Ray cluster, or
        "local:2" for two nodes on this machine. Programs, turns and bugs are those of a hunt without it.

        The generator `llm` asks the language model that the environment names, or `llm` (what settings files have below
        [llm]), for at most `llm_tokens` (200,000 unless told otherwise) and `llm_cost`; with `llm_replay` it takes its
        answers from the store alone.
        """
        if seconds is not None and programs:
            raise DriftlineError("Give seconds or programs to a hunt, not both.")
        skipped: list[Skipped] = []
        going = None
        if resume:
            if targets is not None or generators is not None or shard or settings:
                raise DriftlineError(
                    "A resumed hunt has its targets, settings, generators and shard; do not give others."
                )
            going, plan = resumed_plan(self._store, seconds=seconds or 0.0, programs=programs, number=number)
        else:
            wanted = _targets(targets)
            if settings:
                check_settings_way(settings)
                wanted, skipped = vary_settings(wanted, seed, way=settings)
            plan, others = new_plan(
                wanted,
                generators=generators,
                inputs=inputs,
                seed=seed,
                seconds=(0.0 if programs else 600.0) if seconds is None else seconds,
                programs=programs,
                timeout=timeout,
                plugins=self._plugins,
                accept=accept,
                shard=shard,
                least=least,
            )
            skipped += others
        joining = ClusterAddress.parse(cluster) if cluster else None
        if joining and LLM in plan.generators:
            raise DriftlineError(
                "Programs of a language model are not written on a cluster; leave out --cluster or llm."
            )
        with Pool() as pool, ExitStack() as stack:  # of its own: what still runs at the end of the time is ended
            author = None
            if LLM in plan.generators:
                plan, author = self._author(pool, plan, llm, llm_tokens, llm_cost, replay=llm_replay)
                stack.callback(author.close)
            if not joining:
                foremen = stack.enter_context(Foremen(self._jobs))
                crew: Crew = LocalCrew(pool, self._store, self._jobs, self._library, foremen)
            else:
                crew = stack.enter_context(cluster_crew(joining, self._jobs, self._store, self._library))
            hunter = Hunter(pool, self._store, plan, listener=listener, crew=crew, author=author)
            result = hunter.run(going, skipped, spent=spent)
        if diagnose:
            worth = unreported(result.new, result.bugs)
            said = "explaining what was found"
            with closing_step(result.failed_steps, said, "driftline diagnose explains one bug at a time"):
                result.explained = explain_bugs(
                    self._warm(), self._store, worth, library=self._library, listener=listener
                )
            result.failed_steps += result.explained.failed_steps
            for bug in result.explained.met.values():
                result.add(bug, new=bug.id in result.explained.new)
        return result

    def watch(
        self,
        compilers: Sequence[str],
        *,
        release: str = "",
        pre: bool = True,
        installed: bool = False,
        seconds: float = 3600.0,
        programs: int = 0,
        seed: int = 0,
        accept: Sequence[str] = (),
        listener: Listener = ignore,
    ) -> WatchResult:
        """One round of watching: replay every known bug of these compilers on their newest release, and hunt there.

        The release is the newest that the package index has, a pre-release too unless `pre` is false, or `release`; it
        gets an environment of its own. `installed` takes what is installed here. `seconds` is the time of the hunt, 0
        for none, or `programs` how many are made for each compiler instead; `accept` is arithmetic that is no finding
        there. The result says what is new, back and fixed
        since the last round in this store.
        """
        from driftline.perf.replay import replay_cost

        def measure(bug: Bug, target: Target) -> tuple[ReplayAnswer, str]:
            found = replay_cost(self._store, bug.id, self._warm(), target, listener=listener)
            return found.answer, found.reason

        require_compilers(compilers)
        said = says(listener, "watch")
        targets = watched_targets(compilers, release=release, pre=pre, installed=installed, report=said)
        replayed = list(replay_all(self._store, self._warm(), targets, measure, said))
        result = WatchResult({name: release_of(target) for name, target in targets.items()})
        if seconds or programs:
            try:
                result.hunt = self.hunt(
                    seconds=None if programs else seconds,
                    programs=programs,
                    targets=[str(target) for target in targets.values()],
                    seed=seed,
                    accept=accept,
                    listener=listener,
                )
            except NothingHunted as error:  # what was replayed counts
                result.not_hunted = str(error)
        result.bugs = settle(self._store, replayed, result.hunt)
        return result

    def _author(
        self,
        pool: Pool,
        plan: HuntPlan,
        table: Mapping[str, Any] | None,
        tokens: int | None,
        cost: float | None,
        *,
        replay: bool,
    ) -> tuple[HuntPlan, Author]:
        """What writes programs with a language model, and the plan that names it."""
        from driftline.patterns.rule_book import CompilerRules

        if (lacking := sandbox.missing()) and sandbox.wanted():
            raise DriftlineError(
                f"Programs of a language model are run in a sandbox alone, and {lacking}: set {sandbox.SWITCH}=off to"
                " run them without one."
            )
        told = plan.llm or (last_model(self._store) if replay else None)
        if replay and told is None:
            raise DriftlineError(f"The store {self._store.path} holds no hunt with a language model to replay.")
        settings = llm_settings(table, model=told.model if told else "", replay=replay)
        if told:
            settings = told.settings(settings)
        if told and tokens is None and cost is None:
            allowance = stored_allowance(told.tokens, told.cost)
        else:
            allowance = Allowance.of(settings, tokens, cost)
        client = None
        if not replay:
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

    def audit(
        self,
        *,
        seconds: float | None = None,
        compilers: Sequence[str] | None = None,
        only: str = "",
        seed: int = 0,
        resume: bool = False,
        number: int = 0,
        listener: Listener = ignore,
    ) -> AuditResult:
        """Fire the rewrite rules of the compilers, change what each leaves free, and check what it makes of that.

        `compilers` are those whose rules are audited (all that are installed, unless named;
        `inductor:device=cuda` on a GPU), `only` is a pattern of rules as for `driftline patterns audit --only`. It
        takes half an hour unless told otherwise. `resume` goes on with the last audit that was interrupted, or with
        that of `number`.
        """
        from driftline.patterns.audit import Audit, AuditPlan, chosen_compilers, split_device
        from driftline.patterns.audit import resumed_plan as resumed_audit

        going = None
        if resume:
            if compilers is not None or only:
                raise DriftlineError("A resumed audit has its compilers and rules; do not give others.")
            going, plan = resumed_audit(self._store, seconds=seconds or 0.0, number=number)
        else:
            names, device = split_device(compilers)
            time_given = 1800.0 if seconds is None else seconds
            plan = AuditPlan(chosen_compilers(names), only, time_given, seed, device=device)
        with Pool() as pool:
            checker = Checker(pool, self._jobs)
            more_time = resume and seconds is not None
            return Audit(
                checker,
                self._store,
                plan,
                jobs=self._jobs,
                listener=listener,
                going=going,
                more_time=more_time,
            ).run()

    def test_passes(
        self,
        *,
        seconds: float | None = None,
        compilers: Sequence[str] | None = None,
        only: str = "",
        seed: int = 0,
        plugins: Sequence[str] = (),
        resume: bool = False,
        listener: Listener = ignore,
    ) -> AuditResult:
        """Run one pass of a compiler at a time on small programs, and check that it keeps what they mean.

        `compilers` are those whose passes are tried (all that are installed, unless named), `only` is a pattern of
        passes as for `driftline passes test --only`. It takes ten minutes unless told otherwise. `resume` goes on with
        the last one that was interrupted.
        """
        from driftline.core.plugins import load_plugins
        from driftline.patterns.audit import Audit, AuditPlan, chosen_compilers
        from driftline.patterns.audit import resumed_plan as resumed_audit

        going = None
        load_plugins(plugins)
        if resume:
            if compilers is not None or only:
                raise DriftlineError("A resumed test has its compilers and passes; do not give others.")
            going, plan = resumed_audit(self._store, seconds=seconds or 0.0, passes=True)
        else:
            files = tuple(str(Path(path).resolve()) for path in plugins)
            chosen = chosen_compilers(compilers, passes=True)
            plan = AuditPlan(chosen, only, 600.0 if seconds is None else seconds, seed, passes=True, plugins=files)
        with Pool() as pool:
            checker = Checker(pool, self._jobs)
            more_time = resume and seconds is not None
            audit = Audit(
                checker, self._store, plan, jobs=self._jobs, listener=listener, going=going, more_time=more_time
            )
            return audit.run()

    def instabilities(
        self,
        models: str | Path,
        out: str | Path,
        *,
        inputs: str = "specials",
        frameworks: str = DEFAULT_FRAMEWORKS,
        seed: int = 0,
        timeout: float = 60.0,
        solving: float = SOLVING,
        specs: Sequence[str] = (),
        listener: Listener = ignore,
    ) -> RunResult:
        """Run every model of a folder on every input with every framework. `out` is the folder of the run; one that was
        begun before goes on. `solving` is the time to solve the inputs of one model; `specs` say what the bytes of
        KLEE's test cases are (`input:float32[3]`)."""
        plan = RunPlan(
            Path(models),
            inputs,
            tuple(parse_frameworks(frameworks)),
            Path(out),
            CheckOptions(seed=seed, timeout=timeout, plugins=self._plugins),
            solving,
            self._jobs,
            parse_specs(specs),
        )
        return run_models(self._warm(), self._store, plan, library=self._library, listener=listener)


def _targets(names: Sequence[str] | None) -> list[Target] | None:
    return None if names is None else [target for text in names for target in parse_targets(text)]
