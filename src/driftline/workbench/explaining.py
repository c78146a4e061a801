"""Methods that explain a known failure: replay it, locate it, reduce it, and find what it depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

from driftline.campaign.check.session import check_strategy
from driftline.campaign.explain import replay as replaying
from driftline.campaign.explain.ablation import Ablated, ablate_failing
from driftline.campaign.explain.bisection import Bisected, ReleaseWish, Trial, bisect_failing, keep_bisection
from driftline.campaign.explain.diagnosis import Diagnosis, diagnose_failing
from driftline.campaign.explain.explanations import ExplainedBugs, explain_bugs
from driftline.campaign.explain.failing import Failing, find_failing, require_program, require_wrong
from driftline.campaign.explain.localization import Localized, localize_failing
from driftline.campaign.explain.reduction import Reduced, reduce_failing
from driftline.campaign.explain.scripts import ScriptDiagnosis, ScriptReleases, diagnose_script, is_script
from driftline.checking.checker import TargetResult
from driftline.checking.result import Replay
from driftline.core.case import CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.core.verdict import COSTS
from driftline.events import Listener, ReleaseAsked, ignore, says
from driftline.inputs.sizes import Sizes
from driftline.perf.inquiry import CostInquiry
from driftline.perf.replay import CostReplay, replay_cost
from driftline.scenarios.keeping import is_script_bug
from driftline.scenarios.replay import ScriptReplay, replay_script
from driftline.workbench.opened import OpenBench


class FailingSettings(TypedDict, total=False):
    """The target on which a failure is explained, and the inputs of the check; see `Workbench.failing`."""

    target: str | None
    inputs: str
    dims: Mapping[str, int | Sequence[int]] | None
    shapes: Mapping[str, Sequence[int] | Sequence[Sequence[int]]] | None
    seed: int


class BisectSettings(FailingSettings, total=False):
    """Which releases of a compiler to try: the fields of `ReleaseWish`, and those of `FailingSettings`."""

    package: str
    good: str
    bad: str
    releases: Sequence[str]
    installed: bool
    keep: bool
    max_download: int


class ExplainingBench(OpenBench):
    """The methods of a workbench that explain a bug, a case or a failing program."""

    def replay(
        self, bug: str, *, target: str | None = None, listener: Listener = ignore
    ) -> Replay | CostReplay | ScriptReplay:
        """Run a bug again, on its own target or on another; the result's `answer` says whether it still fails.

        A bug about cost (slow, slow-compile, memory) is measured again. A script that calls torch.compile is judged
        again as by `check_script`. Schedules of TVM are replayed by `driftline schedules replay`.
        """
        wanted = Target.parse(target) if target else None
        stored = self._store.bug(bug)
        if stored.fingerprint.kind in COSTS:
            return replay_cost(self._store, stored.id, self._warm(), wanted, listener=listener)
        if is_script_bug(self._store, stored):
            return replay_script(self._store, stored, self._warm().pool, wanted, says(listener, stored.id))
        return replaying.replay(self._store, stored.id, self._warm(), wanted)

    def replay_case(self, case: str, *, target: str | None = None) -> TargetResult:
        """Run a stored case again, whether or not it belongs to a bug."""
        return replaying.replay_case(self._store, case, self._warm(), Target.parse(target) if target else None)

    def explain(self, bugs: Sequence[str], *, listener: Listener = ignore) -> ExplainedBugs:
        """Explain several bugs in turn, as `diagnose` does."""
        return explain_bugs(self._warm(), self._store, bugs, library=self._library, listener=listener)

    def failing(self, subject: str, *, listener: Listener = ignore, **settings: Unpack[FailingSettings]) -> Failing:
        """Return a failure to explain: a bug or a case of the store, or a program, which is checked first and must
        fail.

        `target` replaces the bug's own target, or names the target to check the program on. `inputs`, `dims`, `shapes`
        and `seed` choose the inputs of the check, as for `check`.
        """
        target, inputs = settings.get("target"), settings.get("inputs", "example")
        check_strategy(inputs)
        return find_failing(
            subject,
            self._store,
            self._warm(),
            target=Target.parse(target) if target else None,
            inputs=inputs,
            sizes=Sizes.of(settings.get("dims") or {}, settings.get("shapes") or {}),
            options=CheckOptions(seed=settings.get("seed", 0), plugins=self._plugins),
            costs=True,
            scripts=True,
            listener=listener,
        )

    def diagnose(
        self,
        subject: str | Failing,
        *,
        seconds: float = 300.0,
        bisect: bool = False,
        listener: Listener = ignore,
        **settings: Unpack[FailingSettings],
    ) -> Diagnosis | ScriptDiagnosis:
        """Explain a failure: the operators that cause it, the smallest program that shows it, and the options it
        depends on.

        `subject` and `settings` are those of `failing`, or `subject` is its result. With `bisect`, other releases of
        the compiler are installed and tried too. The explanation is stored with the bug, as are the results of the
        methods below. `seconds` do not include the check of a program. For a script that calls torch.compile, the first
        stage of the compiler that differs is found.
        """
        failing = self._found(subject, listener, settings)
        if is_script(failing):
            return diagnose_script(self._warm(), self._store, failing, budget=seconds, bisect=bisect, listener=listener)
        return diagnose_failing(
            self._warm(),
            self._store,
            failing,
            budget=seconds,
            bisect=bisect,
            library=self._library,
            inquiry=self._inquiry(failing, listener),
            listener=listener,
        )

    def reduce(
        self,
        subject: str | Failing,
        *,
        seconds: float = 300.0,
        listener: Listener = ignore,
        **settings: Unpack[FailingSettings],
    ) -> Reduced:
        """Reduce a failing program to the smallest one that still fails in the same way (or is still slow)."""
        failing = self._found(subject, listener, settings)
        require_program(failing.case, "driftline reduce")
        return reduce_failing(
            self._warm(),
            self._store,
            failing,
            budget=seconds,
            alone=True,
            library=self._library,
            inquiry=self._inquiry(failing, listener),
            listener=listener,
        )

    def localize(
        self,
        subject: str | Failing,
        *,
        seconds: float = 180.0,
        listener: Listener = ignore,
        **settings: Unpack[FailingSettings],
    ) -> Localized:
        """Find the operators of a failing program that fail by themselves."""
        failing = self._found(subject, listener, settings)
        require_program(failing.case, "driftline localize")
        require_wrong(failing.bug)
        return localize_failing(self._warm(), self._store, failing, budget=seconds, listener=listener)

    def ablate(
        self,
        subject: str | Failing,
        *,
        seconds: float = 180.0,
        listener: Listener = ignore,
        **settings: Unpack[FailingSettings],
    ) -> Ablated:
        """Find the options, passes and rewrite rules without which a failure is gone, or a slow program is fast."""
        failing = self._found(subject, listener, settings)
        require_program(failing.case, "driftline ablate")
        inquiry = self._inquiry(failing, listener)
        return ablate_failing(self._warm(), self._store, failing, budget=seconds, inquiry=inquiry, listener=listener)

    def bisect(
        self,
        subject: str | Failing,
        *,
        listener: Listener = ignore,
        **settings: Unpack[BisectSettings],
    ) -> Bisected:
        """Find the releases of a compiler that show a failure: the first bad release, and the first good one after it.

        All installable releases of the compiler's package are tried, unless `package` names another of its packages,
        `good` and `bad` limit the search, or `releases` lists them. They are downloaded, at most `max_download` bytes
        each, and removed afterwards unless `keep` is set; with `installed`, only installed releases are tried.
        """
        wish = ReleaseWish(
            package=settings.pop("package", ""),
            good=settings.pop("good", ""),
            bad=settings.pop("bad", ""),
            releases=tuple(settings.pop("releases", ())),
            installed=settings.pop("installed", False),
            keep=settings.pop("keep", False),
            download=settings.pop("max_download", ReleaseWish.download),
        )

        def tried(trial: Trial) -> None:
            listener(ReleaseAsked(trial.release, str(trial.answer), trial.seconds))

        failing = self._found(subject, listener, settings)
        found = bisect_failing(
            self._warm(),
            failing,
            wish,
            inquiry=ScriptReleases(self._store, failing) if is_script(failing) else self._inquiry(failing, listener),
            report=says(listener, "bisect"),
            tried=tried,
        )
        keep_bisection(self._store, found)
        return found

    def _inquiry(self, failing: Failing, listener: Listener) -> CostInquiry | None:
        """Return the cost measurements for a bug about cost (slow, slow-compile, memory), or None for any other bug."""
        if failing.bug.fingerprint.kind not in COSTS:
            return None
        return CostInquiry(self._warm(), self._store, failing, listener=listener)

    def _found(self, subject: str | Failing, listener: Listener, settings: FailingSettings) -> Failing:
        if isinstance(subject, str):
            return self.failing(subject, listener=listener, **settings)
        if settings:
            raise DriftlineError(f"{', '.join(settings)}: give this to `failing`, which found the failure.")
        return subject
