"""Measure a stored finding again."""

from __future__ import annotations

from dataclasses import dataclass

from driftline.campaign.check.stored import case_to_run
from driftline.checking.checker import Checker
from driftline.checking.result import ReplayAnswer
from driftline.core.target import Target
from driftline.core.verdict import Status
from driftline.events import Listener, Working, ignore
from driftline.perf.comparison import Effort
from driftline.perf.question import question_of
from driftline.store import Bug, Store


@dataclass(frozen=True)
class CostReplay:
    """The result of measuring a finding again."""

    bug: Bug
    answer: ReplayAnswer
    target: str
    reason: str


def replay_cost(
    store: Store,
    name: str,
    checker: Checker,
    target: Target | None = None,
    *,
    effort: Effort | None = None,
    listener: Listener = ignore,
) -> CostReplay:
    """Measure a finding of `driftline perf` again, on its own target or another one, and update its status."""
    bug = store.bug(name)
    wanted = target or Target.parse(bug.findings[0].target)
    case = case_to_run(store, bug.findings[0].case_id)

    def tell(words: str) -> None:
        listener(Working(bug.id, words))

    question = question_of(store, bug, effort=effort, tell=tell)
    found = question.ask(checker, case, wanted, sure=True)
    still = found.still
    if still is None:
        answer = ReplayAnswer.DIFFERS
    elif still:
        answer = ReplayAnswer.STILL_FAILS
    else:
        answer = ReplayAnswer.FIXED if target is None else ReplayAnswer.PASSES
    if answer is ReplayAnswer.FIXED:
        store.mark(bug.id, Status.FIXED)
    elif answer is ReplayAnswer.STILL_FAILS and target is None and bug.status in (Status.NEW, Status.FIXED):
        store.mark(bug.id, Status.CONFIRMED)
    return CostReplay(store.bug(bug.id), answer, str(wanted), found.reason)
