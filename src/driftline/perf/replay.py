"""Measuring a stored finding again: is it still slow?"""

from __future__ import annotations

from dataclasses import dataclass, replace

from driftline.campaign.stored import case_to_run
from driftline.checking.checker import Checker
from driftline.checking.result import ReplayAnswer
from driftline.core.case import Case
from driftline.core.target import Target
from driftline.core.verdict import Kind, Status
from driftline.events import Listener, Working, ignore
from driftline.perf.check import answered
from driftline.perf.comparison import TOO_NOISY, TOO_SHORT, UNCONFIRMED, Effort, Side, Stopwatch
from driftline.perf.growth import LEAST_BYTES, LEAST_SECONDS, Grower, GrowthEffort
from driftline.perf.recording import GrowthMeasurement, SlowMeasurement, measurement_of
from driftline.perf.result import GrowthRow, PerfRow
from driftline.perf.words import growth_words, row_words
from driftline.store import Bug, Store


@dataclass(frozen=True)
class CostReplay:
    """What a new measurement says of a finding."""

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
    kept = measurement_of(bug)
    wanted = target or Target.parse(bug.findings[0].target)
    case = case_to_run(store, bug.findings[0].case_id)

    def tell(words: str) -> None:
        listener(Working(bug.id, words))

    if isinstance(kept, SlowMeasurement):
        still, reason = _slow_again(store, _side(case, wanted), kept, Stopwatch(checker, effort or Effort(), tell))
    else:
        same = GrowthEffort(kept.row.nodes)
        still, reason = _growth_again(Grower(checker, case, same, kept.limit, tell), wanted, kept, bug)
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
    return CostReplay(store.bug(bug.id), answer, str(wanted), reason)


def _side(case: Case, target: Target) -> Side:
    return Side(replace(case, targets=()), target, str(target))


def _slow_again(store: Store, own: Side, kept: SlowMeasurement, watch: Stopwatch) -> tuple[bool | None, str]:
    """Whether it is still slow; neither when nothing can be concluded."""
    other_case = case_to_run(store, kept.baseline_case) if kept.baseline_case else own.case
    baseline = own.target if kept.baseline_case else Target.parse(kept.baseline)
    other = _side(other_case, baseline)
    row = answered(watch, own, other, kept.row.against, kept.limit)
    return still_slow(row, kept.limit), row_words(row)


def still_slow(row: PerfRow, limit: float) -> bool | None:
    """Only an interval that lies below the limit as a whole says that it is not; neither when the interval holds the
    limit, or calls have become too short to be told apart."""
    if row.found:
        return True
    if not row.measured or row.conclusion in (TOO_NOISY, TOO_SHORT, UNCONFIRMED):
        return None
    found = row.measured[-1]
    return False if found.ratio.high <= limit or found.wall.high <= limit else None


def _growth_again(grower: Grower, target: Target, kept: GrowthMeasurement, bug: Bug) -> tuple[bool | None, str]:
    row = grower.measure(target)
    if row.problem:
        return None, row.problem
    return still_grows(row, bug.fingerprint.kind, kept.limit), growth_words(row)


def still_grows(row: GrowthRow, kind: str, limit: float) -> bool | None:
    """As `still_slow`, of exponents; also over when the largest program needs too little to be a finding."""
    if kind in row.found:
        return True
    of_memory = kind == Kind.MEMORY
    exponents = row.memory_exponents if of_memory else row.time_exponents
    small = row.memory[-1] < LEAST_BYTES if of_memory else row.seconds[-1] < LEAST_SECONDS
    return False if small or exponents[-1].high <= limit else None
