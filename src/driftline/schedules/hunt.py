"""A hunt among schedules: batches are drawn, failures are reduced and confirmed, and each bug is stored at once.

A batch depends on the seed and its number alone. It is noted when all its failures are settled; one that was cut off is
done again by `resume`, and finds the same.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace

from driftline.core.errors import NOTHING_COMPARED, DriftlineError
from driftline.core.execution import Stage
from driftline.core.verdict import Kind
from driftline.events import BugSeen, Listener, Working, ignore
from driftline.execute.pool import Pool, PoolExpired, PoolInterrupted
from driftline.schedules.asking import ScheduleAsker
from driftline.schedules.kernels import expanded, is_model
from driftline.schedules.naming import FailureLike, fingerprint, sentence
from driftline.schedules.recording import record
from driftline.schedules.reducing import Perform, TraceReduction
from driftline.schedules.requests import Performed
from driftline.schedules.trace import RANDOM, ModelKernel, Trace
from driftline.store import Bug, Store
from driftline.store.schedules import BatchBody, ScheduleHuntEntry, ScheduleLog

BATCH = 10
RIGHT, REFUSED = "right", "not begun"
_SLOW = (Kind.TIMEOUT, Kind.OOM)  # to make these smaller would take the time of the whole hunt
_ALWAYS = 3  # times in a row that a failure was reduced to the same bug before that is taken for granted
PATIENCE = 240.0  # seconds after which a schedule that was too slow in its batch is too slow indeed
CONFIRMATIONS = 3  # runs in fresh processes, of which one must fail: a race does not show every time


@dataclass(frozen=True)
class SchedulePlan:
    """What was asked for."""

    functions: tuple[str, ...]
    target: str = "llvm"
    space: str = RANDOM
    seconds: float = 600.0
    seed: int = 0


@dataclass
class ScheduleHuntResult:
    """Everything a hunt brought, batches before a kill included."""

    plan: SchedulePlan
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    refused: int = 0
    unconfirmed: int = 0
    functions: Counter[str] = field(default_factory=Counter)
    primitives: Counter[str] = field(default_factory=Counter)
    sightings: Counter[str] = field(default_factory=Counter)  # bug -> schedules that showed it
    bugs: set[str] = field(default_factory=set)  # those of batches that were cut off, too
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
    """The hunt to go on with: the last one that did not come to its end. A new time counts from its beginning."""
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
    """The time was over before a schedule could be drawn."""

    exit_code = NOTHING_COMPARED


class ScheduleHunt:
    """One hunt. Two threads draw and settle; the store and what is known are shared."""

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
        self._patient = ScheduleAsker(pool, space=plan.space, timeout=PATIENCE)
        self._lock = threading.Lock()
        self._known: dict[FailureLike, str] = {}  # failures that tell their bug without being reduced
        self._steps: defaultdict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)  # of bugs, by stage and kind
        self._smaller: defaultdict[str, list[str]] = defaultdict(list)  # name -> bugs of a simpler function, in turn
        self._functions: tuple[str, ...] = ()
        self._kernels: dict[str, ModelKernel] = {}
        self.result = ScheduleHuntResult(plan)
        done = self._log.batches(self._entry)
        for body in done.values():
            self.result.add(body)
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
        """Refuse a target for which nothing can be built: that would look like a bug of every schedule."""
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
            found[self._settle(one)] += 1
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

    # -- one failure -------------------------------------------------------------------------------------------------

    def _settle(self, failing: Performed) -> str:
        """The bug that a failure shows; nothing when it does not come back in a fresh process."""
        like = FailureLike.of(failing)
        with self._lock:
            if like.telling and like in self._known:
                return self._known[like]
        for optimised in self._ways(failing):
            reduction = TraceReduction(self._performer(failing, optimised), failing)
            for known in self._reduced(reduction):
                if known:
                    return known
            if confirmed := self._confirmed(reduction.best.trace, like):
                break
        else:
            return ""
        with self._lock:
            bug = self._record(confirmed, failing.trace, reduction.asked)
            self._known[like] = bug.id
            self._steps[failing.stage, failing.kind].add(confirmed.trace.primitives)
            self.result.bugs.add(bug.id)
        return bug.id

    def _reduced(self, reduction: TraceReduction) -> Iterator[str]:
        """Make a failure smaller, step by step; after each, the bug of this hunt that it is seen to be, if any."""
        if reduction.best.kind in _SLOW:
            return
        with self._lock:
            known = set(self._steps[reduction.best.stage, reduction.best.kind])
        reduction.known_steps(known)
        yield self._bug_of(reduction.best)
        reduction.fewer_steps()
        yield self._bug_of(reduction.best)
        larger = fingerprint(reduction.best).bug_id
        reduction.simpler_function()
        known_as = self._bug_of(reduction.best)
        with self._lock:
            self._smaller[larger].append(known_as)
        yield known_as
        reduction.all_else()
        yield self._bug_of(reduction.best)

    def _bug_of(self, found: Performed) -> str:
        """By the name that it has now; or by what failures of that name were always reduced to."""
        name = fingerprint(found).bug_id
        with self._lock:
            if name in self.result.bugs:
                return name
            before = self._smaller[name][-_ALWAYS:]
        return before[0] if len(before) == _ALWAYS and len(set(before)) == 1 else ""

    def _record(self, found: Performed, origin: Trace, asked: int) -> Bug:
        new = not self._store.has_bug(fingerprint(found).bug_id)
        bug = record(self._store, found, origin, asked)
        if new:
            self._listener(BugSeen(bug, new=True, how=", ".join(found.trace.primitives)))
        return bug

    def _confirmed(self, trace: Trace, like: FailureLike) -> Performed | None:
        asker = self._patient if like.kind == Kind.TIMEOUT else self._asker  # a busy machine is slow, too
        for _ in range(CONFIRMATIONS):
            (again,) = asker.perform([trace], fresh=True)
            if again.fails and FailureLike.of(again) == like:
                return again
        return None

    def _ways(self, failing: Performed) -> Iterator[bool]:
        """Whether LLVM optimises smaller traces while they are tried. Most failures do not need it, and it takes time;
        but what they become without it may be right with it, and then they are reduced again."""
        if failing.stage != Stage.SCHEDULE and failing.kind not in _SLOW:
            (plain,) = self._asker.perform([failing.trace], optimised=False)
            if plain.fails and FailureLike.of(plain) == FailureLike.of(failing):
                yield False
        yield True

    def _performer(self, failing: Performed, optimised: bool) -> Perform:
        build = failing.stage != Stage.SCHEDULE  # a failure of scheduling needs no compilation to be seen
        return lambda traces, lenient: self._asker.perform_once(
            traces, lenient=lenient, build=build, optimised=optimised
        )
