"""Try TVM's TensorIR passes one at a time, on functions to which random schedule primitives were applied.

A schedule that is right with only the passes that are always needed must also be right with one more pass. The
functions, the traces and the handling of failures come from `driftline.schedules`.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

from driftline.core.announce import Announce
from driftline.execute.ahead import ahead
from driftline.execute.pool import Pool
from driftline.patterns.step_memory import NO_MEMORY, StepMemory
from driftline.schedules.asking import ScheduleAsker
from driftline.schedules.functions import NAMES
from driftline.schedules.passes import needed_by
from driftline.schedules.requests import Performed
from driftline.schedules.settling import PATIENCE, Settling
from driftline.schedules.trace import Trace
from driftline.store import Store

BATCH = 10


class PassAsker(ScheduleAsker):
    """Runs schedules. A failure counts only if the schedule is right with just the passes that are needed."""

    def perform(self, traces: Sequence[Trace], **how: bool) -> list[Performed]:
        found = super().perform(traces, **how)
        failing = [at for at, one in enumerate(found) if one.fails and one.trace.passes]
        without = [found[at].trace.with_passes(*needed_by(found[at].trace)) for at in failing]
        plain = super().perform(without, **{**how, "lenient": False})
        for at, one in zip(failing, plain, strict=True):
            if one.fails or one.refused:
                found[at] = Performed(found[at].trace, found[at].stage, refused="it fails without the pass too")
        return found


@dataclass
class ScheduledBatch:
    """The results of some schedules."""

    changed: dict[str, int] = field(default_factory=dict)  # passes with the number of schedules that they changed
    raised: list[str] = field(default_factory=list)  # passes that raised, and passes with which compiling did
    bugs: list[str] = field(default_factory=list)
    schedules: int = 0  # that are right without any of the passes
    unfit: int = 0  # others: primitives, or the plain pipeline, are to blame


@dataclass(frozen=True)
class ScheduledPlan:
    """The settings of a test of TVM's passes on functions with schedule primitives."""

    names: tuple[str, ...]  # passes
    budget: float  # seconds
    seed: int = 0
    functions: tuple[str, ...] = tuple(NAMES)
    batches: int | None = None  # default: until the budget is spent


class ScheduledPasses:
    """One test of passes. `run` yields the names of bugs as they are found; `tally` counts what was tried."""

    def __init__(
        self,
        pool: Pool,
        store: Store,
        plan: ScheduledPlan,
        *,
        jobs: int = 2,
        tell: Announce = lambda words: None,
        memory: StepMemory = NO_MEMORY,
    ) -> None:
        self._plan = plan
        self._jobs = jobs
        self._batches = itertools.count() if plan.batches is None else range(plan.batches)
        self._tell = tell
        self._keep = memory.keep
        self._asker = PassAsker(pool)
        self._bugs: set[str] = set()
        patient = PassAsker(pool, timeout=PATIENCE)
        self._settling = Settling(self._asker, patient, store, threading.Lock(), self._bugs)
        self._known = frozenset(memory.known)
        self.tally = ScheduledBatch()
        for body in memory.known.values():
            self._add(ScheduledBatch(**body))
        self._bugs.update(self.tally.bugs)

    def run(self) -> Iterator[str]:
        """Yield the names of bugs as they are found."""
        end = time.monotonic() + self._plan.budget
        numbers = (number for number in self._batches if str(number) not in self._known)
        told: set[str] = set()
        for number, batch, failing in ahead(
            self._looked_at, itertools.takewhile(lambda _: time.monotonic() <= end, numbers), self._jobs
        ):
            for one in failing:
                bug = self._settling.settle(one)
                if bug:
                    batch.bugs.append(bug)
                if bug and bug not in told:
                    told.add(bug)
                    yield bug
            self._add(batch)
            self._keep({str(number): asdict(batch)})
            tried = (
                f"{self.tally.schedules} schedules, {len(self.tally.changed)} of {len(self._plan.names)} passes at work"
            )
            self._tell(f"{tried}, {len(self._bugs)} bugs")

    def _looked_at(self, number: int) -> tuple[int, ScheduledBatch, list[Performed]]:
        """Draw a batch of schedules and try on each the passes that change it. Returns the number, the counts and the
        failures."""
        first = (self._plan.seed << 32) + number * BATCH
        drawn = self._asker.draw(range(first, first + BATCH), self._plan.functions, "llvm", passes=self._plan.names)
        usable = [one for one in drawn if not one.fails and not one.refused]
        plain = self._asker.perform([one.trace.with_passes() for one in usable], optimised=False)
        right = [one for one, without in zip(usable, plain, strict=True) if not without.fails and not without.refused]
        tried = [one.trace.with_passes(name) for one in right for name in (*one.changed_by, *one.raising)]
        failing = [one for one in self._asker.perform(tried, optimised=False) if one.fails]
        changed = Counter(name for one in right for name in one.changed_by)
        raised = {name for one in right for name in one.raising}
        batch = ScheduledBatch(dict(changed), sorted(raised), [], len(right), len(drawn) - len(right))
        return number, batch, failing

    def _add(self, batch: ScheduledBatch) -> None:
        before = self.tally
        self.tally = ScheduledBatch(
            dict(Counter(before.changed) + Counter(batch.changed)),
            sorted({*before.raised, *batch.raised}),
            list(dict.fromkeys((*before.bugs, *batch.bugs))),
            before.schedules + batch.schedules,
            before.unfit + batch.unfit,
        )
