"""Explains a bug that a script shows: which stage of `torch.compile` differs first, and which releases show the bug.

The stages are Dynamo alone, AOTAutograd, its decompositions, and TorchInductor; each is tried by running the script
with the backend of that name.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from driftline.campaign.explain.bisection import ReleaseWish, bisect_failing, keep_bisection
from driftline.campaign.explain.budget import cut_at_end
from driftline.campaign.explain.failing import Failing
from driftline.campaign.explain.inquiry import AskRelease
from driftline.checking.checker import Checker
from driftline.checking.result import ReplayAnswer
from driftline.core.case import Case
from driftline.core.closing import FailedStep
from driftline.core.errors import DriftlineError
from driftline.core.program import SCRIPT
from driftline.core.target import Target
from driftline.core.text import first_line
from driftline.diagnose.bisect import ReleaseAnswer
from driftline.diagnose.reduce.reducer import DoesNotFail
from driftline.events import Listener, ignore, says
from driftline.execute.pool import Pool
from driftline.report.export.script import Exported
from driftline.report.export.user_script import (
    UserScriptBug,
    export_user_issue,
    export_user_script,
    export_user_test,
)
from driftline.report.results import replay_command
from driftline.scenarios.check import ScriptTrials
from driftline.scenarios.keeping import options_of, script_of
from driftline.scenarios.replay import answer_of, trials_of
from driftline.scenarios.script import UserScript
from driftline.scenarios.target import BACKEND_NAMES, DYNAMO_ALONE
from driftline.store import Bug, Store
from driftline.store.diagnoses import Diagnoses

STEP, LADDER = "diagnose", "ladder"
_STAGES = {
    DYNAMO_ALONE: "Dynamo, which captures the graphs",
    "aot_eager": "AOTAutograd, which traces the backward pass and removes mutation",
    "aot_eager_decomp": "the decompositions of operators",
    "inductor": "TorchInductor, which generates the kernels",
}


@dataclass(frozen=True)
class ScriptRung:
    """The answer of the script with one backend: whether it differs as the bug does."""

    target: str
    answer: ReplayAnswer
    reason: str

    def to_json(self) -> dict[str, str]:
        return {"target": self.target, "answer": str(self.answer), "reason": self.reason}


@dataclass(frozen=True)
class ScriptLadder:
    """The backends that were tried, up to the first that differs as the bug does."""

    own: str  # the target of the bug
    rungs: tuple[ScriptRung, ...]

    @property
    def first(self) -> str:
        """Return the first target that shows the bug, or an empty string if none does."""
        return next((rung.target for rung in self.rungs if rung.answer is ReplayAnswer.STILL_FAILS), "")

    def sentences(self) -> Iterator[str]:
        """Yield sentences that say what follows from the backends tried."""
        passing = [rung.target for rung in self.rungs if rung.answer is ReplayAnswer.PASSES]
        right = f"; {', '.join(passing)} {'does' if len(passing) == 1 else 'do'} what eager does" if passing else ""
        if self.first:
            stage = _STAGES[Target.parse(self.first).backend]
            yield f"{self.first} is the first that differs{right}. To blame is {stage}."
        else:
            yield f"No stage by itself shows the bug{right}. To blame is the script's own backend, mode or options."
        for rung in self.rungs:
            if rung.answer is ReplayAnswer.DIFFERS:
                yield f"{rung.target} differs in another way: {first_line(rung.reason, 200)}."

    def to_json(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "rungs": [rung.to_json() for rung in self.rungs],
            "sentences": list(self.sentences()),
        }


@dataclass(frozen=True)
class ScriptDiagnosis:
    """The explanation of a script's bug, with the same JSON form as the diagnosis of a program."""

    failing: Failing
    ladder: ScriptLadder
    seconds: float
    bisected: dict[str, Any] | None = None
    notes: dict[str, str] = field(default_factory=dict)
    failed_steps: list[FailedStep] = field(default_factory=list)

    internal_errors: tuple[str, ...] = ()
    met: tuple[Bug, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that is stored, shown and printed; docs/json.md describes it."""
        found = [f"{self.bisected['package']}: {self.bisected['summary']}"] if self.bisected else []
        return {
            "bug": self.failing.bug.id,
            "of_case": self.failing.finding.case_id,
            "target": str(self.failing.target),
            "summary": [*self.ladder.sentences(), *found, *(f"{step}: {why}" for step, why in self.notes.items())],
            "localization": None,
            "reduction": None,
            "ablation": None,
            "ladder": self.ladder.to_json(),
            "on_original": [],
            "bisection": self.bisected,
            "notes": self.notes,
            "failed_steps": [step.to_json() for step in self.failed_steps],
            "seconds": round(self.seconds, 2),
        }


def is_script(failing: Failing) -> bool:
    """True if the failing program is a script that calls the compiler itself."""
    return failing.case.program.form == SCRIPT


def diagnose_script(
    checker: Checker,
    store: Store,
    failing: Failing,
    *,
    budget: float,
    bisect: bool = False,
    listener: Listener = ignore,
) -> ScriptDiagnosis:
    """Find the first stage of the compiler that shows a script's bug, and store the answer with the bug. With `bisect`,
    also run the releases of torch that have an environment. Raises `DoesNotFail`."""
    began = time.monotonic()
    bisected, notes = None, {}
    with cut_at_end(checker.pool, budget, STEP):
        trials = trials_of(store, failing.finding.case_id, checker.pool, says(listener, STEP))
        ladder = climb(trials, failing, store)
        if bisect:
            try:
                bisected = _bisected(checker, store, failing, listener)
            except DriftlineError as error:
                notes["bisect"] = str(error)
    found = ScriptDiagnosis(failing, ladder, time.monotonic() - began, bisected, notes)
    kept = Diagnoses(store)
    kept.save(failing.bug.id, LADDER, ladder.to_json())
    kept.save(failing.bug.id, STEP, found.to_json())
    return found


def climb(trials: ScriptTrials, failing: Failing, store: Store) -> ScriptLadder:
    """Judge the script on its own target, then with one backend after another until one shows the bug."""
    known, own = failing.bug.fingerprint, failing.target
    answer, reason = answer_of(known, trials.judge(own))
    if answer is not ReplayAnswer.STILL_FAILS:
        again = replay_command(failing.bug.id, store.path)
        raise DoesNotFail(f"{failing.bug.id} does not show on {own} as it did ({answer}: {reason}). See: {again}")
    rungs: list[ScriptRung] = []
    for backend in BACKEND_NAMES:
        target = Target(backend, own.version)
        answer, reason = (answer, reason) if target == own else answer_of(known, trials.judge(target))
        rungs.append(ScriptRung(str(target), answer, reason))
        if answer is ReplayAnswer.STILL_FAILS:
            break
    return ScriptLadder(str(own), tuple(rungs))


class ScriptReleases:
    """Decides whether a script's bug shows in a release of torch. The runs without the compiler use the same
    release."""

    def __init__(self, store: Store, failing: Failing) -> None:
        self._store, self._failing = store, failing

    def releases(self, case: Case) -> AskRelease:
        """Return a function that runs the script in a release and says whether the bug shows."""

        def ask(checker: Checker, target: Target) -> tuple[ReleaseAnswer, str]:
            trials = trials_of(self._store, self._failing.finding.case_id, checker.pool)
            answer, reason = answer_of(self._failing.bug.fingerprint, trials.judge(target))
            if answer is ReplayAnswer.STILL_FAILS:
                return ReleaseAnswer.BAD, reason
            return (ReleaseAnswer.GOOD if answer is ReplayAnswer.PASSES else ReleaseAnswer.SKIP), reason

        return ask


def export_failing(failing: Failing, pool: Pool, form: str) -> Exported:
    """Export the bug of a script as text: as a pytest file, an issue, or the script itself."""
    options = options_of(failing.case)

    def ask(text: str, target: Target) -> tuple[ReplayAnswer, str]:
        path = pool.workspace.job_folder() / "script.py"
        path.write_text(text, encoding="utf-8")
        try:
            result = ScriptTrials(UserScript(path, text), pool, options).judge(target)
        except DriftlineError as error:
            return ReplayAnswer.DIFFERS, str(error)
        return answer_of(failing.bug.fingerprint, result)

    text = script_of(failing.case, pool).text
    bug = UserScriptBug(failing.bug, failing.finding, text, failing.target, ask)
    export = {"pytest": export_user_test, "issue": export_user_issue}.get(form, export_user_script)
    return export(bug)


def _bisected(checker: Checker, store: Store, failing: Failing, listener: Listener) -> dict[str, Any]:
    """Search the releases of torch that have an environment."""
    wish = ReleaseWish(installed=True)
    found = bisect_failing(
        checker, failing, wish, inquiry=ScriptReleases(store, failing), report=says(listener, "bisect")
    )
    keep_bisection(store, found)
    return found.to_json()
