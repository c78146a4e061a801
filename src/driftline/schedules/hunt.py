"""A hunt among schedules: draws batches, reduces and confirms failures, and stores each bug at once.

A batch depends on the seed and its number alone. It is noted when all its failures are settled; one that was cut off is
done again by `resume`, and finds the same.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace

from driftline.core.errors import NOTHING_COMPARED, DriftlineError
from driftline.events import Listener, Working, ignore
from driftline.execute.pool import Pool, PoolExpired, PoolInterrupted
from driftline.schedules.asking import ScheduleAsker
from driftline.schedules.kernels import expanded, is_model
from driftline.schedules.naming import sentence
from driftline.schedules.settling import PATIENCE, Settling
from driftline.schedules.trace import RANDOM, ModelKernel, Trace
from driftline.store import Store
from driftline.store.schedules import BatchBody, ScheduleHuntEntry, ScheduleLog

BATCH = 10
RIGHT, REFUSED = "right", "not begun"


@dataclass(frozen=True)
class SchedulePlan:
    """The plan of a hunt: what the user asked for."""

    functions: tuple[str, ...]
    target: str = "llvm"
    space: str = RANDOM
    seconds: float = 600.0
    seed: int = 0


@dataclass
class ScheduleHuntResult:
    """The result of a hunt, including batches before an interruption."""

    plan: SchedulePlan
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    refused: int = 0
    unconfirmed: int = 0
    functions: Counter[str] = field(default_factory=Counter)
    primitives: Counter[str] = field(default_factory=Counter)
    sightings: Counter[str] = field(default_factory=Counter)  # bug -> schedules that showed it
    bugs: set[str] = field(default_factory=set)  # including those of interrupted batches
    unsettled: int = 0  # schedules of batches that the end of the time cut off

    @property
    def schedules(self) -> int:
        return self.outcomes.total()

    def add(self, body: BatchBody) -> None:
        self.outcomes.update(body.outcomes)
        self.steps += body.steps
        self.refused += body.refused
        self.unconfirmed += body.unconfirmed
        self.functions.update(body.functions)
        self.primitives.update(body.primitives)
        self.sightings.update(body.bugs)
        self.bugs.update(body.bugs)


def resumed(store: Store, *, seconds: float = 0.0) -> tuple[ScheduleHuntEntry, SchedulePlan]:
    """Return the last unfinished hunt and its plan. `seconds` replaces its time, counted from its beginning."""
    entry = ScheduleLog(store).unfinished()
    if entry is None:
        raise DriftlineError(f"There is no unfinished schedule hunt in {store.path}; leave out --resume to start one.")
    plan = SchedulePlan(**{**entry.plan, "functions": tuple(entry.plan["functions"])})
    plan = replace(plan, seconds=seconds) if seconds else plan
    if plan.seconds <= entry.seconds:
        raise DriftlineError(
            f"The budget counts from the beginning of the hunt, which has run for {entry.seconds:.0f} s already; give"
            " a longer --budget."
        )
    return entry, plan


class NothingScheduled(DriftlineError):
    """Raised when the time ended before a schedule could be drawn."""

    exit_code = NOTHING_COMPARED


class ScheduleHunt:
    """One hunt. Two threads draw and settle schedules; they share the store and the known failures."""

    def __init__(
        self,
        pool: Pool,
        store: Store,
        plan: SchedulePlan,
        *,
        entry: ScheduleHuntEntry | None = None,
        jobs: int = 2,
        batches: int | None = None,
        listener: Listener = ignore,
    ) -> None:
        self._pool = pool
        self._store = store
        self._jobs = jobs
        self._most = batches
        self._listener = listener
        self._log = ScheduleLog(store)
        self._entry = entry or self._log.begin(asdict(plan))
        self._begun = time.monotonic() - self._entry.seconds
        self._asker = ScheduleAsker(pool, space=plan.space)
        self._lock = threading.Lock()
        self._functions: tuple[str, ...] = ()
        self._kernels: dict[str, ModelKernel] = {}
        self.result = ScheduleHuntResult(plan)
        done = self._log.batches(self._entry)
        for body in done.values():
            self.result.add(body)
        patient = ScheduleAsker(pool, space=plan.space, timeout=PATIENCE)
        self._settling = Settling(self._asker, patient, store, self._lock, self.result.bugs, listener)
        self._done = frozenset(done)
        self._next = 0

    def run(self) -> ScheduleHuntResult:
        plan = self.result.plan
        before = self._pool.deadline
        self._pool.deadline = self._begun + plan.seconds
        try:
            self._require_target(plan.target)
            self._functions, self._kernels = expanded(plan.functions, self._pool, plan.space)
            self._work_side_by_side()
        except PoolExpired as error:
            busy = "TVM made kernels of the models" if any(map(is_model, plan.functions)) else "TVM was being started"
            raise NothingScheduled(
                f"The budget of {plan.seconds:.0f} s ended while {busy}; give more with --budget."
            ) from error
        finally:
            self._pool.deadline = before
        self.result.seconds = self._seconds
        self._log.finish(self._entry, self._seconds)
        return self.result

    def _work_side_by_side(self) -> None:
        with ThreadPoolExecutor(self._jobs) as threads:
            try:
                for each in [threads.submit(self._work) for _ in range(self._jobs)]:
                    each.result()
            except BaseException:  # Ctrl-C: the other thread must not go on
                self._most = 0
                self._pool.interrupt()
                raise

    def _require_target(self, target: str) -> None:
        """Raise if nothing can be built for a target: every schedule would seem to have a bug."""
        (plain,) = self._asker.perform([Trace("scale", {"n": 2, "m": 2}, target=target)])
        if plain.fails:
            raise DriftlineError(f"--target {target}: TVM cannot build for it here: {sentence(plain)}.")

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def _work(self) -> None:
        while (number := self._number()) is not None:
            try:
                self._batch(number)
            except PoolInterrupted:  # the time is over, or somebody pressed Ctrl-C
                return

    def _number(self) -> int | None:
        with self._lock:
            while self._next in self._done:
                self._next += 1
            if self._seconds >= self.result.plan.seconds or (self._most is not None and self._next >= self._most):
                return None
            self._next += 1
            return self._next - 1

    def _batch(self, number: int) -> None:
        plan = self.result.plan
        first = (plan.seed << 32) + number * BATCH
        drawn = self._asker.draw(range(first, first + BATCH), self._functions, plan.target, self._kernels)
        failing = [one for one in drawn if one.fails]
        with self._lock:
            self.result.unsettled += len(failing)
        found: Counter[str] = Counter()
        for one in failing:
            found[self._settling.settle(one)] += 1
            with self._lock:
                self.result.unsettled -= 1
        unconfirmed = found.pop("", 0)
        body = BatchBody(
            Counter(one.kind or (REFUSED if one.refused else RIGHT) for one in drawn),
            sum(len(one.trace.steps) for one in drawn),
            sum(max(0, one.drawn - len(one.trace.steps)) for one in drawn),
            found,
            unconfirmed,
            Counter(one.trace.function for one in drawn if one.trace.function),
            Counter(name for one in drawn for name in one.trace.primitives),
        )
        with self._lock:
            self._log.keep(self._entry, number, body, self._seconds)
            self.result.add(body)
            rate = 60 * self.result.schedules / max(self._seconds, 1.0)
            told = f"{self.result.schedules} schedules ({rate:.0f} a minute), {len(self.result.bugs)} bugs"
        self._listener(Working("schedules", told))
