"""The pool: runs tasks in isolated worker processes and reports their outcome.

A *nursery* process is kept for each kind of worker (an interpreter with certain modules imported). Workers are forked
from it and reused until they fail or have served their share of jobs. See `worker.py` for the other side.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from driftline.core.announce import Announce
from driftline.core.task import Answer, Request, Task
from driftline.core.text import last_words
from driftline.core.vouched import vouched
from driftline.core.wire import DAMAGES, Json, decode, encode
from driftline.execute import limits
from driftline.execute.channel import ChannelClosed, ChannelTimeout
from driftline.execute.messages import Ending, Job
from driftline.execute.nursery_handle import Keeper, NurseryHandle
from driftline.execute.requests import FIT, FitRequest
from driftline.execute.slots import Slots
from driftline.execute.task_report import DAMAGED, Lost, PoolExpired, PoolInterrupted, TaskReport
from driftline.execute.time_left import time_limit
from driftline.execute.worker_handle import WorkerHandle
from driftline.execute.worker_kind import Killed, WorkerKind, WorkerStartError, killed_each_time
from driftline.execute.workspace import Workspace

Done = TypeVar("Done")

__all__ = ["Pool", "PoolExpired", "PoolInterrupted", "TaskReport", "WorkerKind", "WorkerStartError"]


class Pool:
    """Hands out workers. Safe to use from several threads; a worker serves one job at a time."""

    def __init__(self, workspace: Workspace | None = None, *, start_timeout: float = limits.START_TIMEOUT) -> None:
        self.workspace = workspace or Workspace()
        self._start_timeout = start_timeout
        self._lock = threading.Lock()
        self._keeper: Keeper | None = None
        self._nurseries: dict[WorkerKind, NurseryHandle] = {}
        self._starting: dict[WorkerKind, threading.Lock] = defaultdict(threading.Lock)
        self._idle: dict[WorkerKind, list[WorkerHandle]] = defaultdict(list)
        self._warming: set[NurseryHandle] = set()
        self._busy: set[WorkerHandle] = set()
        self._interruptions = 0
        self._closed = False
        self._slots: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        self._most_idle = math.inf
        self.deadline = math.inf  # of `time.monotonic`: running tasks are ended then, and no more are begun

    def bound(self, jobs: int) -> None:
        """Limit the number of tasks that run at once; others wait (`slots.py`). Idle workers hold memory: one of each
        kind is kept, and beyond that a few for each task (`limits.IDLE_PER_JOB`)."""
        self._slots = Slots(jobs)
        self._most_idle = limits.IDLE_PER_JOB * jobs

    def warm(self, kind: WorkerKind) -> None:
        """Import the modules of this kind of worker ahead of its use. A failure to start is not reported here."""
        if kind.fork:
            with contextlib.suppress(WorkerStartError, PoolInterrupted, OSError):
                self._nursery(kind, self._interruptions)

    def run(
        self,
        kind: WorkerKind,
        task: Task[Request, Answer],
        request: Request,
        *,
        timeout: float = 300.0,
        memory_limit: int = 8 << 30,
        fresh: bool = False,
        entering: Announce = lambda stage: None,
    ) -> TaskReport[Answer]:
        """Run one task to its end. Raises `WorkerStartError` if the worker cannot start.

        `fresh` gives the task a process that runs nothing before and nothing after it. `entering` is called with each
        stage that the task announces.
        """
        began = self._interruptions
        job = Job(task.name, encode(task.request, request), vouched())
        lost = 0
        while True:
            reused = False
            if kind.fork and (fresh or not self._idle.get(kind)):
                self._nursery(kind, began)  # a task that waits for an import takes no slot
            try:
                with self._slots:
                    worker = self._acquire(kind, fresh, began)
                    reused = worker.jobs > 0
                    report = self._run_on(worker, began, kind, job, timeout, memory_limit, fresh, entering)
                return report if report.ending is not Ending.DONE else _read_answer(task, request, report)
            except Lost as error:
                lost += not reused  # reused workers do not count: their number is limited
                if lost >= limits.STARTS:
                    raise WorkerStartError(killed_each_time(kind, str(error))) from error

    def ask(self, kind: WorkerKind, task: Task[Request, Answer], request: Request, *, timeout: float = 300.0) -> Answer:
        """Return the answer to one of Driftline's own tasks. If its process is killed, the task is run again, a few
        times. Raises `WorkerStartError` if there is no answer."""
        for _ in range(limits.STARTS):
            report = self.run(kind, task, request, timeout=timeout)
            if report.answer is not None:
                return report.answer
            if report.ending is not Ending.DIED:
                break
        said = f"{report.detail}. {last_words(report.log)}".strip()
        step = task.name.rpartition(":")[2]
        raise WorkerStartError(f"{kind.name}: the step {step} ended with {report.ending}: {said}")

    @contextlib.contextmanager
    def hold(self, kind: WorkerKind) -> Iterator[HeldWorker]:
        """Hold a worker inside the block: its tasks run in one process, and find the results of earlier ones there,
        such as a compiled model. Raises `WorkerStartError` if the worker cannot start."""
        began = self._interruptions
        worker = self._acquire(kind, True, began)
        try:
            yield HeldWorker(self, worker, began)
        finally:
            worker.dismiss()

    def _go_on(self, began: int) -> None:
        """Raise PoolInterrupted if the pool was closed or interrupted since `began`, PoolExpired if its time is
        over."""
        if self._closed or self._interruptions != began:
            raise PoolInterrupted("the pool is closed" if self._closed else "the job was interrupted")
        if time.monotonic() >= self._end():
            raise PoolExpired("the time is over")

    def _end(self) -> float:
        """Return when the tasks of the caller are ended."""
        return min(self.deadline, time_limit().end)

    def _run_on(
        self,
        worker: WorkerHandle,
        began: int,
        kind: WorkerKind,
        job: Job,
        timeout: float,
        memory_limit: int,
        fresh: bool,
        entering: Announce,
    ) -> TaskReport[Json]:
        keep = False
        try:
            report = self._serve(worker, began, job, timeout, memory_limit, entering)
            keep = report.ending is Ending.DONE and worker.jobs < limits.JOBS_PER_WORKER and not fresh
            keep = keep and not worker.has_grown() and (kind.fork or self._is_fit(worker, kind, began))
        finally:
            leaving: WorkerHandle | None = worker
            with self._lock:
                if keep and not self._closed and not worker.interrupted:
                    self._idle[kind].append(worker)
                    leaving = self._too_many()
            if leaving:
                leaving.dismiss()
        return report

    def _is_fit(self, worker: WorkerHandle, kind: WorkerKind, began: int) -> bool:
        """True if a process that is not forked may serve another task."""
        if kind.fit is None:
            return False
        job = Job(FIT.name, encode(FitRequest, FitRequest(*kind.fit)))
        try:
            report = self._serve(worker, began, job, limits.FIT_TIMEOUT, 8 << 30)
        except Lost:
            return False
        found = _read_answer(FIT, FitRequest(*kind.fit), report) if report.ending is Ending.DONE else None
        return bool(found and found.answer and found.answer.fit)

    def _too_many(self) -> WorkerHandle | None:
        """Return an idle worker to end if more are idle than may be kept, else None: one of the most frequent kind, but
        not its last. Its imports beyond those of the nursery are worth seconds."""
        most = max(self._idle.values(), key=len)
        if len(most) < 2 or sum(map(len, self._idle.values())) <= self._most_idle:
            return None
        return most.pop(0)

    def _serve(
        self,
        worker: WorkerHandle,
        began: int,
        job: Job,
        timeout: float,
        memory_limit: int,
        entering: Announce = lambda stage: None,
    ) -> TaskReport[Json]:
        """Run one job on this worker; it can be interrupted meanwhile."""
        try:
            with self._lock:
                self._go_on(began)
                self._busy.add(worker)
            return worker.run(job, timeout, memory_limit, self._end, entering)
        finally:
            with self._lock:
                self._busy.discard(worker)

    def _acquire(self, kind: WorkerKind, fresh: bool, began: int) -> WorkerHandle:
        with self._lock:
            self._go_on(began)
            idle = self._idle[kind]
            if idle and not fresh:
                return idle.pop()
        if not kind.fork:
            return self._warmed(kind, began).become_worker()
        said = ""
        for _ in range(limits.STARTS):
            nursery = self._nursery(kind, began)
            try:
                return nursery.fork(lambda: self._go_on(began))
            except (ChannelClosed, ChannelTimeout) as error:  # killed or stopped from outside: try once more
                said = str(error)
                with self._lock:
                    if self._nurseries.get(kind) is nursery:
                        del self._nurseries[kind]
                nursery.kill()
        raise WorkerStartError(killed_each_time(kind, said))

    def _nursery(self, kind: WorkerKind, began: int) -> NurseryHandle:
        with self._lock:
            starting = self._starting[kind]
        with starting:  # two threads must not start the same nursery; other kinds may start meanwhile
            nursery = self._nurseries.get(kind)
            if nursery is None:
                nursery = self._warmed(kind, began)
                with self._lock:
                    if not self._closed:
                        self._nurseries[kind] = nursery
                        return nursery
                nursery.kill()
                raise PoolInterrupted("the pool is closed")
            return nursery

    def _warmed(self, kind: WorkerKind, began: int) -> NurseryHandle:
        for _ in range(limits.STARTS - 1):
            with contextlib.suppress(Killed):
                return self._warmed_once(kind, began)
        return self._warmed_once(kind, began)

    def _warmed_once(self, kind: WorkerKind, began: int) -> NurseryHandle:
        nursery = self._started(kind, began)
        try:
            with self._lock:
                self._go_on(began)
                self._warming.add(nursery)
            nursery.warm(self._end)
        except BaseException as error:
            nursery.destroy()
            if isinstance(error, WorkerStartError):
                self._go_on(began)  # Driftline ended it
            raise
        finally:
            with self._lock:
                self._warming.discard(nursery)
        if self._interruptions != began:  # it will be killed, and must not be reused
            nursery.kill()
            self._go_on(began)
        return nursery

    def _started(self, kind: WorkerKind, began: int) -> NurseryHandle:
        with self._lock:
            self._go_on(began)
            if self._keeper is None:
                self._keeper = Keeper(self.workspace)
        try:
            return NurseryHandle(kind, self.workspace, self._start_timeout)
        except OSError:
            self._go_on(began)  # the workspace was removed with the pool
            raise

    @property
    def kinds(self) -> int:
        """The number of kinds of workers with a running nursery."""
        return len(self._nurseries)

    def interrupt(self) -> None:
        """End all running and waiting jobs; their callers, in other threads, get `PoolInterrupted`. The pool stays
        usable."""
        with self._lock:
            self._interruptions += 1
            warming, busy = list(self._warming), list(self._busy)
            for worker in busy:  # now, so that none of them gets another job before it is killed
                worker.interrupted = True
        for nursery in warming:
            nursery.interrupt()
        for worker in busy:
            worker.interrupt()

    def close(self) -> None:
        """End all workers and nurseries, and remove the workspace."""
        with self._lock:
            self._closed = True
            workers = [worker for idle in self._idle.values() for worker in idle]
            nurseries = list(self._nurseries.values())
            keeper, self._keeper = self._keeper, None
            self._idle.clear()
            self._nurseries.clear()
        self.interrupt()
        for worker in workers:
            worker.dismiss() if worker.spawned else worker.forget()
        for nursery in nurseries:
            nursery.kill()
        if keeper:
            keeper.close()
        self.workspace.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def if_time(work: Callable[[], Done], otherwise: Done) -> Done:
    """Return what `work` does, or `otherwise` if the limit of the caller ends it."""
    try:
        return work()
    except PoolExpired:
        if not time_limit().over:
            raise
        return otherwise


class HeldWorker:
    """A worker that is kept for several tasks. Once a task has not finished, its process is gone, and every further
    task returns the same report."""

    def __init__(self, pool: Pool, worker: WorkerHandle, began: int) -> None:
        self._pool = pool
        self._worker = worker
        self._began = began
        self._ended: TaskReport[Json] | None = None

    def run(
        self,
        task: Task[Request, Answer],
        request: Request,
        *,
        timeout: float = 300.0,
        memory_limit: int = 8 << 30,
    ) -> TaskReport[Answer]:
        """Run one task in the held process. Raises `WorkerStartError` if that process was killed before the task could
        begin."""
        report = self._ended
        if report is None:
            job = Job(task.name, encode(task.request, request), vouched())
            try:
                report = self._pool._serve(self._worker, self._began, job, timeout, memory_limit)
            except Lost as error:
                raise WorkerStartError(f"the process was killed from outside ({error})") from error
        if report.ending is not Ending.DONE:
            self._ended = report
            return replace(report, answer=None)
        return _read_answer(task, request, report)


def _read_answer(task: Task[Request, Answer], request: Request, report: TaskReport[Json]) -> TaskReport[Answer]:
    with contextlib.suppress(*DAMAGES):  # only the worker can have written it
        answer = decode(task.answer, report.answer)
        if task.fits(request, answer):
            return replace(report, answer=answer)
    return replace(report, ending=Ending.DIED, detail=DAMAGED, answer=None)
