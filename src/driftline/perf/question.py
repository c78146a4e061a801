"""Test whether a finding of `driftline perf` is still there, for a program and a target.

There are two ways to ask: with few rounds, or, if `sure` is set, with the full measurement of `perf check`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from driftline.campaign.check.stored import case_to_run
from driftline.checking.checker import Checker
from driftline.core.announce import Announce
from driftline.core.case import Case
from driftline.core.target import Target
from driftline.core.text import first_line
from driftline.core.verdict import Kind
from driftline.measure.estimate import Estimate
from driftline.measure.rounds import RoundLimits
from driftline.measure.words import times
from driftline.perf.check import answered, baseline
from driftline.perf.comparison import LEAST_SECONDS as LEAST_CALL
from driftline.perf.comparison import (
    SCREENING_ROUNDS,
    TOO_NOISY,
    TOO_SHORT,
    UNCONFIRMED,
    Effort,
    RatioMeasured,
    Side,
    Stopwatch,
    Unmeasured,
    is_beyond,
    is_too_short,
)
from driftline.perf.growth import LEAST_BYTES, LEAST_SECONDS, Grower, GrowthEffort
from driftline.perf.recording import GrowthMeasurement, SlowMeasurement, measurement_of
from driftline.perf.result import GrowthRow, PerfRow
from driftline.perf.twins import MADE_TWINS
from driftline.perf.words import growth_sentence, growth_words, row_words, slow_sentence
from driftline.store import Bug, Finding, Store

_FAIR = 1.2  # times the limit


@dataclass(frozen=True)
class CostAnswer:
    """The answer to a question. `still` is None if the measurement cannot tell. `amount` is the ratio or exponent;
    `most` is the upper end of its interval, if the measurement is reliable.
    """

    still: bool | None
    reason: str
    amount: float = 0.0
    most: float = math.inf
    sentence: str = ""  # of a finding


class CostQuestion(Protocol):
    """The question of a finding, which can be asked of any program and target."""

    usual: float  # the amount when it was found
    limit: float  # the amount that is a finding
    fair: float  # the amount that may remain after a cure of a much larger amount

    @property
    def message(self) -> str:
        """A text that distinguishes this question from others."""
        ...

    def ask(
        self, checker: Checker, case: Case, target: Target, *, sure: bool = False, twin_on: Target | None = None
    ) -> CostAnswer:
        """Measure a program on a target. `sure`: with the full effort. `twin_on`: the target on which a twin is timed,
        if another one.
        """
        ...


class SlowQuestion:
    """Asks whether a program is still slower than the limit. A twin is timed on the same target, another baseline on
    its own.
    """

    def __init__(self, kept: SlowMeasurement, twin: Case | None, effort: Effort, tell: Announce) -> None:
        last = kept.row.measured[-1]
        self.usual = last.ratio.value
        self.limit, self.fair = kept.limit, _FAIR * kept.limit
        self._least = min(last.other_seconds, LEAST_CALL) / 2  # of work: a program of less is only a call
        self._kept = kept
        self._twin = twin
        self._effort = effort
        self._tell = tell
        self._watch: Stopwatch | None = None

    @property
    def message(self) -> str:
        return f"over {self._kept.limit:g} times as long as {self._kept.baseline_case or self._kept.baseline}"

    def ask(
        self, checker: Checker, case: Case, target: Target, *, sure: bool = False, twin_on: Target | None = None
    ) -> CostAnswer:
        watch = self._watch_of(checker)
        own = _side(case, target)
        other = self._other(checker, case, twin_on or target)
        if isinstance(other, str):
            return CostAnswer(None, other)
        return self._surely(watch, own, other) if sure else self._screened(watch, own, other)

    def _other(self, checker: Checker, case: Case, target: Target) -> Side | str:
        """Return the side to compare with. A twin that Driftline makes is made again, since the program may be a
        smaller one.
        """
        if self._kept.row.against in MADE_TWINS:
            return baseline(checker, replace(case, targets=()), target, self._kept.row.against)
        return _side(self._twin, target) if self._twin else _side(case, Target.parse(self._kept.baseline))

    def _watch_of(self, checker: Checker) -> Stopwatch:
        """Return the same stopwatch for the same checker, since it remembers the noise."""
        if self._watch is None or self._watch.checker is not checker:
            self._watch = Stopwatch(checker, self._effort, self._tell)
        return self._watch

    def _screened(self, watch: Stopwatch, own: Side, other: Side) -> CostAnswer:
        """Answer with few rounds, and with more if those leave the question open."""
        found = watch.measure(own, other, limits=RoundLimits(SCREENING_ROUNDS, watch.effort.seconds))
        if isinstance(found, RatioMeasured) and _is_open(found, self._kept.limit):
            found = watch.measure(own, other)
        if isinstance(found, Unmeasured):
            return CostAnswer(None, f"{found.outcome.lower()}: {found.reason}")
        reason = f"{times(found.ratio)} as long as {other.words}"
        if found.other_seconds < self._least:
            return CostAnswer(None, f"{reason}, with too little work to be timed", found.ratio.value)
        most = math.inf if is_too_short(found, self._kept.limit) else found.ratio.high
        return CostAnswer(screened_slow(found, self._kept.limit), reason, found.ratio.value, most)

    def _surely(self, watch: Stopwatch, own: Side, other: Side) -> CostAnswer:
        row = answered(watch, own, other, self._kept.row.against, self._kept.limit)
        amount = row.measured[-1].ratio.value if row.measured else 0.0
        known = row.measured and row.conclusion not in (TOO_NOISY, TOO_SHORT)
        most = max(one.ratio.high for one in row.measured) if known else math.inf
        sentence = slow_sentence(row, self._kept.limit) if row.found else ""
        return CostAnswer(still_slow(row, self._kept.limit), row_words(row), amount, most, sentence)


class GrowthQuestion:
    """Asks whether compile time or memory still grows faster than the limit."""

    def __init__(self, kept: GrowthMeasurement, kind: str, tell: Announce) -> None:
        self.usual = _exponent(kept.row, kind)
        self.limit = self.fair = kept.limit
        self._kept = kept
        self._kind = kind
        self._tell = tell

    @property
    def message(self) -> str:
        return f"faster than nodes^{self._kept.limit:g} to {max(self._kept.row.nodes)}"

    def ask(
        self, checker: Checker, case: Case, target: Target, *, sure: bool = False, twin_on: Target | None = None
    ) -> CostAnswer:
        effort = GrowthEffort(self._kept.row.nodes)
        if not sure:
            effort = replace(effort, passes=1, series=1)
        row = Grower(checker, replace(case, targets=()), effort, self._kept.limit, self._tell).measure(target)
        if row.problem:
            return CostAnswer(None, row.problem)
        still = still_grows(row, self._kind, self._kept.limit)
        sentence = growth_sentence(row, self._kind, self._kept.limit) if still else ""
        most = max(one.high for one in _exponents(row, self._kind))
        return CostAnswer(still, growth_words(row), _exponent(row, self._kind), most, sentence)


def question_of(
    store: Store,
    bug: Bug,
    finding: Finding | None = None,
    *,
    effort: Effort | None = None,
    tell: Announce = lambda words: None,
) -> SlowQuestion | GrowthQuestion:
    """Return the question of a stored finding, by default of the first finding of the bug."""
    kept = measurement_of(bug, finding)
    if isinstance(kept, GrowthMeasurement):
        return GrowthQuestion(kept, bug.fingerprint.kind, tell)
    twin = case_to_run(store, kept.baseline_case) if kept.baseline_case else None
    return SlowQuestion(kept, twin, effort or Effort(), tell)


def _side(case: Case, target: Target) -> Side:
    return Side(replace(case, targets=()), target, first_line(str(target), 80))


def screened_slow(found: RatioMeasured, limit: float) -> bool | None:
    """True if the ratio lies beyond the limit, False if below; None if its interval contains the limit, or calls are
    too short.
    """
    if is_beyond(found, limit, 1.0):
        return True
    return None if is_too_short(found, limit) else _below(found, limit)


def _is_open(found: RatioMeasured, limit: float) -> bool:
    """True if more rounds could decide the question."""
    return screened_slow(found, limit) is None and not is_too_short(found, limit)


def still_slow(row: PerfRow, limit: float) -> bool | None:
    """True if the row is a finding, False if its whole interval lies below the limit; None if the interval contains the
    limit, or the measurement is too noisy or too short.
    """
    if row.found:
        return True
    if not row.measured or row.conclusion in (TOO_NOISY, TOO_SHORT, UNCONFIRMED):
        return None
    return _below(row.measured[-1], limit)


def _below(found: RatioMeasured, limit: float) -> bool | None:
    return False if found.ratio.high <= limit or found.wall.high <= limit else None


def still_grows(row: GrowthRow, kind: str, limit: float) -> bool | None:
    """Like `still_slow`, for exponents. Also False if the largest program needs too little to be a finding."""
    if kind in row.found:
        return True
    of_memory = kind == Kind.MEMORY
    exponents = _exponents(row, kind)
    small = row.memory[-1] < LEAST_BYTES if of_memory else row.seconds[-1] < LEAST_SECONDS
    return False if small or exponents[-1].high <= limit else None


def _exponents(row: GrowthRow, kind: str) -> tuple[Estimate, ...]:
    return row.memory_exponents if kind == Kind.MEMORY else row.time_exponents


def _exponent(row: GrowthRow, kind: str) -> float:
    return _exponents(row, kind)[-1].value
