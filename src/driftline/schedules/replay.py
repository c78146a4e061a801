"""Replays a stored schedule, and says whether it still fails in the same way."""

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
    """Perform the schedule of a bug in a fresh process, on the installed TVM or on that of another target."""
    trace = trace_of(store.load_case(bug.findings[0].case_id))
    (found,) = ScheduleAsker(pool, target=target).perform([trace], fresh=True)
    return found


def answer_of(bug: Bug, found: Performed) -> tuple[ReplayAnswer, str]:
    """Return the answer of a replay and its reason."""
    if found.refused:
        return ReplayAnswer.DIFFERS, f"TVM does not take the schedule any more: {found.refused}"
    if not found.fails:
        return ReplayAnswer.PASSES, "the schedule computes what the function does"
    same = fingerprint(found) == bug.fingerprint
    return (ReplayAnswer.STILL_FAILS if same else ReplayAnswer.DIFFERS), sentence(found)
