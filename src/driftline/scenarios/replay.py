"""Run the script of a bug again, and compare the result with the bug."""

from __future__ import annotations

from dataclasses import dataclass

from driftline.checking.result import ReplayAnswer
from driftline.core.announce import Announce
from driftline.core.target import Target
from driftline.core.text import first_line
from driftline.core.verdict import Fingerprint, Judgement, Status
from driftline.execute.pool import Pool
from driftline.scenarios.check import ScriptTrials
from driftline.scenarios.identity import fingerprint
from driftline.scenarios.judge import ScriptResult
from driftline.scenarios.keeping import options_of, script_of
from driftline.store import Bug, Store


@dataclass(frozen=True)
class ScriptReplay:
    """The result of running a bug's script again, and what it means for the bug."""

    bug: Bug
    answer: ReplayAnswer
    reason: str
    result: ScriptResult

    @property
    def target(self) -> str:
        return self.result.target

    def __repr__(self) -> str:
        return f"<ScriptReplay {self.bug.id} on {self.target}: {self.answer}: {first_line(self.reason, 120)}>"


def trials_of(store: Store, case_id: str, pool: Pool, announce: Announce = lambda text: None) -> ScriptTrials:
    """Return an object that judges the script of a stored case on any target."""
    case = store.load_case(case_id)
    return ScriptTrials(script_of(case, pool), pool, options_of(case), announce)


def replay_script(
    store: Store, bug: Bug, pool: Pool, target: Target | None = None, announce: Announce = lambda text: None
) -> ScriptReplay:
    """Run the script of a bug again, on its own target or on another one, and update the bug's status."""
    trials = trials_of(store, bug.findings[0].case_id, pool, announce)
    result = trials.judge(target or Target.parse(bug.findings[0].target))
    answer, reason = answer_of(bug.fingerprint, result)
    if answer is ReplayAnswer.PASSES and target is None:
        answer = ReplayAnswer.FIXED
        store.mark(bug.id, Status.FIXED)
    elif answer is ReplayAnswer.STILL_FAILS and target is None and bug.status in (Status.NEW, Status.FIXED):
        store.mark(bug.id, Status.CONFIRMED)
    return ScriptReplay(store.bug(bug.id), answer, reason, result)


def answer_of(known: Fingerprint, result: ScriptResult) -> tuple[ReplayAnswer, str]:
    """Return whether a result, on any target, still shows the bug, and the reason."""
    if result.judgement is Judgement.PASS:
        return ReplayAnswer.PASSES, result.reason
    if result.judgement is not Judgement.FAIL:
        return ReplayAnswer.DIFFERS, f"{result.judgement}: {result.reason}"
    return (ReplayAnswer.STILL_FAILS if same_difference(known, result) else ReplayAnswer.DIFFERS), result.reason


def same_difference(known: Fingerprint, result: ScriptResult) -> bool:
    """True if a failing result shows the same difference as the bug, whatever the backend."""
    seen = fingerprint(result)
    return (seen.stage, seen.kind, seen.detail) == (known.stage, known.kind, known.detail)
