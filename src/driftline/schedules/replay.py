"""Running a stored schedule again: does it still fail as it did?"""

from __future__ import annotations

from driftline.checking.result import ReplayAnswer
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.schedules.asking import TVM, ScheduleAsker
from driftline.schedules.naming import fingerprint, sentence
from driftline.schedules.recording import trace_of
from driftline.schedules.requests import Performed
from driftline.store import Bug, Store


def perform_again(store: Store, bug: Bug, pool: Pool, target: Target = TVM) -> Performed:
    """What becomes of the schedule of a bug in a fresh process, on the TVM that is here or that of another release."""
    trace = trace_of(store.load_case(bug.findings[0].case_id))
    (found,) = ScheduleAsker(pool, target=target).perform([trace], fresh=True)
    return found


def answer_of(bug: Bug, found: Performed) -> tuple[ReplayAnswer, str]:
    """What that says of the bug, and why."""
    if found.refused:
        return ReplayAnswer.DIFFERS, f"TVM does not take the schedule any more: {found.refused}"
    if not found.fails:
        return ReplayAnswer.PASSES, "the schedule computes what the function does"
    same = fingerprint(found) == bug.fingerprint
    return (ReplayAnswer.STILL_FAILS if same else ReplayAnswer.DIFFERS), sentence(found)
