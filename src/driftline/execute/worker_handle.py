"""The parent's side of a worker: sends it jobs, watches its time, memory and log, and reports how each job ended."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from driftline.core import strangers
from driftline.core.announce import Announce
from driftline.core.errors import DamagedFile, InternalError
from driftline.core.full_disk import refuse_full
from driftline.core.handover import open_file, remove_file, remove_folder
from driftline.core.quoting import one_line
from driftline.core.text import tail
from driftline.core.wire import Json
from driftline.execute import limits
from driftline.execute.channel import Channel, ChannelClosed, ChannelDamaged, ChannelTimeout
from driftline.execute.messages import (
    Answered,
    Ending,
    Entered,
    FromWorker,
    Job,
    Lap,
    Mistaken,
    OutOfMemory,
    Started,
)
from driftline.execute.processes import describe_exit, tree_usage
from driftline.execute.task_report import DAMAGED, Lost, PoolExpired, PoolInterrupted, TaskReport
from driftline.execute.workspace import temporary_folder

if TYPE_CHECKING:
    from driftline.execute.nursery_handle import NurseryHandle


@dataclass(frozen=True)
class _Resident:
    """The bytes of memory that a worker holds now."""

    memory: int


@dataclass(frozen=True)
class _Expired:
    """The time of the pool is over."""


@dataclass(frozen=True)
class _Stopped:
    """The task exceeded one of its limits."""

    ending: Ending
    detail: str


_News = FromWorker | _Resident | _Expired | _Stopped


class WorkerHandle:
    """The parent's handle on a worker process. Number -1 is a nursery process that became the worker itself."""

    def __init__(
        self, channel: Channel[Job, FromWorker], number: int, pid: int, log: Path, nursery: NurseryHandle
    ) -> None:
        self._channel = channel
        self._number = number
        self._pid = pid
        self._log = log
        self._log_before = ""
        self._nursery = nursery
        self.interrupted = False
        self.jobs = 0
        self._began_with = tree_usage(pid).memory

    def run(
        self, job: Job, timeout: float, memory_limit: int, end: Callable[[], float], entering: Announce
    ) -> TaskReport[Json]:
        """Run one job to its end and report how it ended."""
        self.jobs += 1
        self._log_before = ""
        started = time.monotonic()
        begun, stage, peak = False, "", 0
        try:
            self._channel.send(job, timeout=limits.SEND_TIMEOUT)
            for message in self._messages(timeout, memory_limit, end):
                match message:
                    case _Resident(resident):
                        peak = max(peak, resident)
                    case Started():
                        begun = True
                    case Entered(entered):
                        stage = entered
                        entering(stage)
                    case _Expired():
                        raise PoolExpired("the time is over")  # the caller ends the process
                    case _Stopped(ending, detail):
                        self._end()
                        return self._report(ending, started, stage, detail, peak)
                    case Answered(answer, used):
                        return self._report(Ending.DONE, started, stage, "", _larger(peak, used), answer)
                    case OutOfMemory(used):
                        return self._report(Ending.MEMORY, started, stage, "MemoryError", _larger(peak, used))
                    case Mistaken(error, traceback):
                        return self._mistaken(error, traceback, started, stage, peak)
        except ChannelDamaged:
            self._end()
            return self._report(Ending.DIED, started, stage, DAMAGED, peak)
        except (ChannelClosed, ChannelTimeout):
            pass
        if self.interrupted:
            raise PoolInterrupted("the job was interrupted")
        exited = self._nursery.exit_of(self._number, limits.END_TIMEOUT / 2)
        if not begun or (self._number >= 0 and self._nursery.gone):
            raise Lost(describe_exit(exited.status) if exited else "its nursery is gone")
        refuse_full(self._log.parent)
        detail = describe_exit(exited.status) if exited else "lost its connection"
        peak = max(peak, exited.peak_memory if exited else 0)
        return self._report(Ending.DIED, started, stage, detail, peak)

    def _mistaken(self, error: str, traceback: str, started: float, stage: str, peak: int) -> TaskReport[Json]:
        """Report that the task raised an exception. That is a bug of Driftline, unless a stranger's program may have
        written the message."""
        if not strangers.admitted():
            refuse_full(self._log.parent, f"{error}\n{traceback}")
            raise InternalError(f"{error}\n{traceback}")
        self._end()
        report = self._report(Ending.DIED, started, stage, f"{DAMAGED}: {one_line(error, 150)}", peak)
        return replace(report, log=tail(f"{report.log}\n{traceback}"))

    def _end(self) -> None:
        """Kill the process; if it does not end, its nursery is replaced."""
        self._nursery.end_worker(self._number)
        if self._nursery.exit_of(self._number, limits.END_TIMEOUT) is None:
            self._nursery.condemn()

    def _messages(self, timeout: float, memory_limit: int, end: Callable[[], float]) -> Iterator[_News]:
        """Yield the worker's messages, and readings of its memory between them, until the time or memory is used up.
        Each lap of a task restarts its time limit."""
        deadline = time.monotonic() + timeout
        look = time.monotonic() + limits.TICK
        while True:
            now = time.monotonic()
            if now >= deadline:
                yield _Stopped(Ending.TIMEOUT, "no answer in time")
                return
            if now >= end():
                yield _Expired()
                return
            if self.interrupted:  # the nursery may be stopped, and unable to kill the worker
                return
            if now >= look:
                look = now + limits.TICK
                resident, processes = tree_usage(self._pid)
                yield _Resident(resident)
                if resident > memory_limit:
                    yield _Stopped(Ending.MEMORY, f"used {resident >> 20} MiB of {memory_limit >> 20} MiB")
                    return
                if processes > limits.PROCESSES:
                    yield _Stopped(Ending.MEMORY, f"started {processes} processes; {limits.PROCESSES} are allowed")
                    return
                self._bound_log()
                if self._nursery.has_lost(self._number):  # the socket may stay open in a process that the worker forked
                    return
            with contextlib.suppress(ChannelTimeout):
                message = self._channel.receive(max(min(look, deadline) - now, 0.0))
                if isinstance(message, Lap):
                    deadline = time.monotonic() + timeout
                else:
                    yield message

    def _bound_log(self) -> None:
        """Truncate a log that is too large, so that a task that prints endlessly does not fill the disk; the end is
        kept."""
        with contextlib.suppress(OSError):
            if self._log.stat().st_size > limits.LOG_LIMIT:
                self._log_before = end_of_log(self._log)
                os.truncate(self._log, 0)

    def _report(
        self, ending: Ending, started: float, stage: str, detail: str, peak: int, answer: Json = None
    ) -> TaskReport[Json]:
        seconds = time.monotonic() - started
        log = tail(self._log_before + end_of_log(self._log))
        return TaskReport(ending, answer, stage, detail, log, seconds, peak)

    @property
    def spawned(self) -> bool:
        """True if the worker is a process of its own, not forked from a nursery."""
        return self._number < 0

    def has_grown(self) -> bool:
        """True if the process has kept much memory, such as a model that its compiler holds."""
        if self.spawned and self.jobs == 1:  # the memory that a driver takes once, at the start
            self._began_with = tree_usage(self._pid).memory
        return tree_usage(self._pid).memory > self._began_with + limits.GROWTH

    def interrupt(self) -> None:
        """End the process, from another thread; the thread that waits for it notices."""
        self._nursery.end_worker(self._number)

    def dismiss(self) -> None:
        """End the process if it is still running, and remove its files."""
        self._nursery.end_worker(self._number)
        self.forget()
        if self._number < 0:
            self._nursery.kill()
        remove_file(self._log)
        remove_folder(temporary_folder(self._log))

    def forget(self) -> None:
        self._channel.close()
        self._nursery.forget(self._number)


def _larger(peak: int, said: int) -> int:
    """Return the larger of two peaks of memory; `said` comes from the worker and is ignored if implausible."""
    return max(peak, said) if 0 <= said < 1 << 62 else peak


def end_of_log(log: Path) -> str:
    """Return the end of a worker's log, or an empty string if it cannot be read."""
    try:
        with open_file(log) as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - 8000, 0))
            return tail(file.read().decode(errors="replace"))
    except (OSError, DamagedFile):
        return ""
