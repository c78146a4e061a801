"""Hunt for programs that a compiler makes slow: generate them, screen them with few rounds, cut them to the operators
that are slow alone, and confirm them like `perf check`.

Most programs are not slow, and the screening ends after a few rounds. A program is a finding if it is beyond the limit
in the whole screening and once more in other processes and in the other order. A program depends on the seed and its
number alone. It is noted when all targets are done with it; one that was cut off is done again by `--resume`. Programs
are timed one after the other: two at once would disturb each other.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from driftline.checking.checker import Checker
from driftline.core.case import Case, CheckOptions
from driftline.core.errors import DriftlineError
from driftline.core.target import Target
from driftline.diagnose.reduce.cutting import DataFlow, Mode, Returned, keep
from driftline.diagnose.reduce.generated import read_generated, write_generated
from driftline.events import BugSeen, Listener, Working, ignore
from driftline.execute.pool import PoolInterrupted
from driftline.generate.graph import Graph
from driftline.measure.rounds import FEWEST_ROUNDS, RoundLimits
from driftline.perf.candidates import candidate, candidate_case, only_computed
from driftline.perf.check import answered, baseline
from driftline.perf.comparison import (
    LEAST_SECONDS,
    SCREENING_ROUNDS,
    SLOW,
    TOO_SHORT,
    Effort,
    RatioMeasured,
    Side,
    Stopwatch,
    Unmeasured,
    is_beyond,
    plainly_below,
)
from driftline.perf.journal import PerfHuntEntry, PerfJournal
from driftline.perf.recording import record_slow, slow_fingerprint
from driftline.store import Store

EFFORT = Effort(rounds=10, seconds=20.0, timeout=120.0)  # a confirmation has twice as many rounds
FEWEST_LOOKS = 3  # rounds after which a screen may say that a program is not slow
SCREENING_SECONDS = 5.0  # calls that take seconds are not made more often than that
LEAST_WORK = LEAST_SECONDS / 2  # of the baseline: a program of less is only a call, a view or an early return
NOT_SLOW, NO_PROGRAM, UNCONFIRMED_SLOW, SLOW_AGAIN = "not slow", "no program", "not confirmed", "slow, found before"
_CUT = Mode(DataFlow.CUT, Returned.UNREAD)


class PerfHunt:
    """One hunt for slow programs."""

    def __init__(self, checker: Checker, store: Store, entry: PerfHuntEntry, options: CheckOptions) -> None:
        self._checker = checker
        self._store = store
        self._options = replace(options, timeout=EFFORT.timeout)
        self._listener: Listener = ignore
        self._journal = PerfJournal(store)
        self._begun = time.monotonic() - entry.seconds
        self._watch = Stopwatch(checker, EFFORT, self._tell)
        self._counts = Counter(entry.counts)
        self._bugs = dict.fromkeys(entry.bugs)
        self.entry = entry

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    def run(self) -> PerfHuntEntry:
        """Hunt until the time is over or enough programs were tested."""
        plan = self.entry.plan
        self._checker.pool.deadline = self._begun + plan.seconds
        try:
            while self._seconds < plan.seconds and not (plan.programs and self.entry.number >= plan.programs):
                self._program(self.entry.number)
                self._note(number=self.entry.number + 1)
        except PoolInterrupted:  # the time is over
            pass
        self._note(finished=True)
        return self.entry

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _note(self, *, number: int | None = None, finished: bool = False) -> None:
        self.entry = replace(
            self.entry,
            number=self.entry.number if number is None else number,
            seconds=self._seconds,
            counts=dict(self._counts),
            bugs=tuple(self._bugs),
            finished=finished,
        )
        self._journal.keep(self.entry)

    def _tell(self, words: str) -> None:
        self._listener(Working(f"{self.entry.number} programs, {len(self._bugs)} bugs", words))

    def _program(self, number: int) -> None:
        graph = candidate(self.entry.plan.seed, number)
        case = self._case(graph) if graph else None
        if graph is None or case is None:
            self._counts[NO_PROGRAM] += 1
            return
        came: Counter[str] = Counter()
        for text in self.entry.plan.targets:
            came[self._examined(graph, case, Target.parse(text))] += 1
        self._counts += came  # together, so that a program that was cut off counts once

    def _case(self, graph: Graph) -> Case | None:
        try:
            return candidate_case(self._checker, graph, self._options)
        except DriftlineError:  # eager itself does not take it
            return None

    def _examined(self, graph: Graph, case: Case, target: Target) -> str:
        """Return the outcome of a program on a target, in a word."""
        sides = self._sides(case, target)
        if sides is None:
            return "no baseline"
        screened = self._screened(*sides)
        if isinstance(screened, Unmeasured):
            return screened.outcome.lower()
        if screened.other_seconds < LEAST_WORK:
            return TOO_SHORT
        if not self._is_slow(screened):
            return NOT_SLOW
        smaller, of_smaller = self._smallest(graph, case, screened, target)
        if slow_fingerprint(smaller, target).bug_id in self._bugs:  # to confirm it again takes long
            return SLOW_AGAIN
        # What was seen with few rounds may not hold in the part.
        for found, seen in {smaller: of_smaller, case: screened}.items():
            if self._confirmed(found, target, seen):
                return SLOW
        return UNCONFIRMED_SLOW

    def _screened(self, own: Side, other: Side) -> RatioMeasured | Unmeasured:
        return self._watch.measure(
            own,
            other,
            limits=RoundLimits(SCREENING_ROUNDS, SCREENING_SECONDS, FEWEST_LOOKS),
            settled=lambda ratio: plainly_below(ratio, self.entry.plan.ratio),
        )

    def _is_slow(self, found: RatioMeasured) -> bool:
        return found.other_seconds >= LEAST_WORK and is_beyond(found, self.entry.plan.ratio, 1.0)

    def _sides(self, case: Case, target: Target) -> tuple[Side, Side] | None:
        other = baseline(self._checker, case, target, self.entry.plan.against)
        return (Side(case, target, f"{target} on {case.program.name}"), other) if isinstance(other, Side) else None

    def _smallest(
        self, graph: Graph, case: Case, screened: RatioMeasured, target: Target
    ) -> tuple[Case, RatioMeasured]:
        """Return the smallest part that is still slow, with its screening: a single operator, or the program with
        operators removed one after another.
        """
        best = case, screened
        while len(graph.nodes) > 1:
            for part in parts_of(graph):
                made = self._case(part)
                sides = self._sides(made, target) if made else None
                found = self._screened(*sides) if sides else None
                if made and isinstance(found, RatioMeasured) and self._is_slow(found):
                    graph, best = part, (made, found)
                    break
            else:
                return best
        return best

    def _confirmed(self, case: Case, target: Target, screened: RatioMeasured) -> bool:
        sides = self._sides(case, target)
        if sides is None:  # a twin is made anew, which may fail where it did not before
            return False
        plan = self.entry.plan
        first = screened if screened.rounds >= FEWEST_ROUNDS else None  # fewer have no interval that can be relied on
        row = answered(self._watch, *sides, plan.against, plan.ratio, screened=first)
        if not row.found:
            return False
        new = not self._store.has_bug(slow_fingerprint(case, target).bug_id)
        bug = record_slow(self._store, *sides, row, plan.ratio)
        self._bugs[bug.id] = None
        self._listener(BugSeen(bug, new=new, how=case.program.name))
        return True


def parts_of(graph: Graph) -> Iterator[Graph]:
    """Yield single operators, then the program with one operator less each."""
    base, every = read_generated(graph), range(len(graph.nodes))
    wanted = [{at} for at in every]
    wanted += [set(every) - {at} for at in every] if len(graph.nodes) > 2 else []
    for nodes in wanted:
        made = keep(base, nodes, _CUT)
        if made is not None and len(made[0].nodes) < len(graph.nodes):
            part = only_computed(write_generated(made[0], graph))
            if part is not None:
                yield part
