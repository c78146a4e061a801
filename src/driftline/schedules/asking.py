"""The parent's side: sends schedules to workers in batches. A schedule that ends its worker costs no other schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from driftline.backends import BACKENDS
from driftline.checking.kinds import worker_for_target
from driftline.core.execution import Failure, Stage
from driftline.core.handover import records_of
from driftline.core.sentences import ended
from driftline.core.target import Target
from driftline.core.task import Request, Task
from driftline.core.text import tail
from driftline.core.verdict import Kind
from driftline.execute.messages import Ending
from driftline.execute.pool import Pool, TaskReport, WorkerKind
from driftline.execute.requests import RESULTS
from driftline.schedules.requests import (
    DRAW,
    PERFORM,
    AllPerformed,
    DrawRequest,
    JournalLine,
    Performed,
    PerformRequest,
)
from driftline.schedules.trace import META, RANDOM, ModelKernel, Trace

TVM = Target("tvm")
THREADS = 4  # of a parallel loop: more than there are processors, so that races show
_OF_THE_MACHINE = (Kind.TIMEOUT, Kind.OOM)
_NEVER_BEGUN = Trace("")
_KINDS = {Ending.DIED: Kind.CRASH, Ending.TIMEOUT: Kind.TIMEOUT, Ending.MEMORY: Kind.OOM}


def schedule_worker(space: str = RANDOM, target: Target = TVM) -> WorkerKind:
    """Return the kind of worker for schedules: TVM with several threads, and MetaSchedule if `space` needs it."""
    kind = worker_for_target(BACKENDS.get("tvm"), target, ())
    variables = (*kind.variables, ("TVM_NUM_THREADS", str(THREADS)))
    warm = (*kind.warm, ("driftline.schedules.warming:warm_schedules", None))
    if space == META:
        warm = (*warm, ("driftline.schedules.meta:import_meta", None))
    name = f"{kind.name} schedules, meta" if space == META else f"{kind.name} schedules"
    return replace(kind, name=name, warm=warm, variables=variables)


class ScheduleAsker:
    """Sends schedules to workers. Thread-safe, as the pool is."""

    def __init__(self, pool: Pool, *, space: str = RANDOM, target: Target = TVM, timeout: float = 60.0) -> None:
        self._pool = pool
        self._timeout = timeout
        self._space = space
        self._worker = schedule_worker(space, target)
        self._shared = pool.workspace.job_folder()
        self._answers: dict[tuple[str, bool, bool, bool], Performed] = {}

    def draw(
        self,
        seeds: Sequence[int],
        functions: Sequence[str],
        target: str,
        kernels: Mapping[str, ModelKernel] | None = None,
        passes: Sequence[str] = (),
    ) -> list[Performed]:
        """Draw and perform a schedule for each seed, and return the results; with `passes`, report instead which of
        them change the schedule."""

        def request(numbers: Sequence[int], folder: Path) -> DrawRequest:
            return DrawRequest(
                tuple(numbers),
                tuple(functions),
                target,
                folder,
                self._shared,
                self._space,
                kernels or {},
                tuple(passes),
            )

        return self._all(DRAW, list(seeds), request)

    def perform(
        self,
        traces: Sequence[Trace],
        *,
        lenient: bool = False,
        fresh: bool = False,
        build: bool = True,
        optimised: bool = True,
    ) -> list[Performed]:
        """Perform each trace, and return the results. `fresh`: in a new process, compiled as a user compiles. Without
        `build`, traces are only scheduled; unless `optimised`, LLVM does not optimise, which is three times as fast."""

        def request(numbers: Sequence[int], folder: Path) -> PerformRequest:
            some = tuple(traces[n] for n in numbers)
            return PerformRequest(some, folder, self._shared, lenient, build, optimised, faithful=fresh)

        return self._all(PERFORM, list(range(len(traces))), request, renumbered=True, fresh=fresh)

    def perform_once(self, traces: Sequence[Trace], *, lenient: bool, build: bool, optimised: bool) -> list[Performed]:
        """Like `perform`, but remember results, since similar failures reduce to the same traces. Not remembered:
        parallel loops, where a race does not show every time, and results that a busy machine may have caused (a
        time-out, too little memory, a worker that did not start)."""
        how = (lenient, build, optimised)
        new = [one for one in traces if (one.digest, *how) not in self._answers]
        found = dict(
            zip(
                (one.digest for one in new),
                self.perform(new, lenient=lenient, build=build, optimised=optimised) if new else (),
                strict=True,
            )
        )
        for one in new:
            answer = found[one.digest]
            if "parallel" not in one.primitives and answer.kind not in _OF_THE_MACHINE and answer.trace != _NEVER_BEGUN:
                self._answers[one.digest, *how] = answer
        return [found.get(one.digest) or self._answers[one.digest, *how] for one in traces]

    def _all(
        self,
        task: Task[Request, AllPerformed],
        numbers: list[int],
        request: Callable[[Sequence[int], Path], Request],
        *,
        renumbered: bool = False,
        fresh: bool = False,
    ) -> list[Performed]:
        """Ask workers until every number has an answer. `renumbered`: the journal counts the traces of each request
        from 0."""
        answers: dict[int, Performed] = {}
        waiting = list(numbers)
        while waiting:
            folder = self._pool.workspace.job_folder()
            report = self._pool.run(self._worker, task, request(waiting, folder), timeout=self._timeout, fresh=fresh)
            done, broken = read_journal(folder / RESULTS)
            names = dict(enumerate(waiting)) if renumbered else {n: n for n in waiting}
            answers |= {names[number]: performed for number, performed in done.items()}
            if report.answer is None:
                number, trace, stage = broken or (next(n for n in names if names[n] not in answers), None, "")
                answers[names[number]] = _ended(trace, stage, report)
            waiting = [number for number in waiting if number not in answers]
        return [answers[number] for number in numbers]


def _ended(trace: Trace | None, stage: str, report: TaskReport[AllPerformed]) -> Performed:
    """Return the result of a schedule that ended its worker."""
    if trace is None:  # the schedule never began
        return Performed(_NEVER_BEGUN, refused=f"its worker ended with {report.ending}: {report.detail}")
    kind = _KINDS[report.ending]
    verdict = ended(kind, stage, Failure(report.detail, ""), tail(report.log, 2000))
    return Performed(trace, stage, kind, verdict.evidence)


def read_journal(path: Path) -> tuple[dict[int, Performed], tuple[int, Trace, str] | None]:
    """Return the finished results of a journal, and the unfinished schedule if any: number, trace so far, stage."""
    done: dict[int, Performed] = {}
    current: tuple[int, Trace, str] | None = None
    for line in records_of(path, JournalLine):
        if line.done:
            done[line.number] = line.done
            current = None
        elif line.trace:
            current = (line.number, line.trace, Stage.SCHEDULE)
        elif current and line.step:
            number, trace, stage = current
            current = (number, trace.with_steps((*trace.steps, line.step)), stage)
        elif current and line.stage:
            current = (current[0], current[1], line.stage)
    return done, current
