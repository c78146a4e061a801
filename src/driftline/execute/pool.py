"""The pool: runs tasks in isolated worker processes and reports what became of them.

A *nursery* process is kept for each kind of worker (an interpreter with certain modules warm); workers are forked from
it and reused until they fail or have served their share of jobs. See `worker.py` for the other side.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driftline.core.config import cache_home
from driftline.core.errors import InternalError
from driftline.core.text import tail
from driftline.execute.channel import Channel, ChannelClosed, ChannelTimeout, channel_pair
from driftline.execute.processes import TAG, describe_exit, keeper_command, kill_tagged, kill_tree, resident_memory
from driftline.execute.workspace import Workspace

START_TIMEOUT = 300.0  # a cold import of a large compiler on a busy machine
END_TIMEOUT = 10.0  # from SIGKILL to the end of a process: long when it holds much memory
JOBS_PER_WORKER = 200
GROWTH = 512 << 20  # bytes that an idle worker may hold beyond what it began with; a fork gives the rest back
LOG_LIMIT = 16 << 20
_TICK = 0.1


@dataclass(frozen=True)
class WorkerKind:
    """Which process is needed: an interpreter, what is imported before forking, and whether forking is safe."""

    name: str
    python: str = sys.executable
    warm: tuple[tuple[str, Any], ...] = ()  # functions to call before forking, each with its argument
    fork: bool = True
    variables: tuple[tuple[str, str], ...] = ()


class WorkerStartError(Exception):
    """The worker's modules could not be imported: the backend is not usable in that environment."""


class PoolInterrupted(Exception):
    """The job was ended by `Pool.interrupt` or `Pool.close`: this says nothing about the task."""


class PoolExpired(PoolInterrupted):
    """The job was ended, or never begun, because the time of the pool is over: see `Pool.deadline`."""


class _LostWhileIdle(Exception):
    """A reused worker was already dead when it was given a job: nothing of the job has run."""


@dataclass(frozen=True)
class Report:
    """How a task ended. `ending` is done, died, timeout or memory; only `done` has a result."""

    ending: str
    result: dict[str, Any] = field(default_factory=dict)
    stage: str = ""
    detail: str = ""
    log: str = ""
    seconds: float = 0.0
    peak_memory: int = 0


class Pool:
    """Hands out workers. Safe to use from several threads; a worker serves one job at a time."""

    def __init__(self, workspace: Workspace | None = None, *, start_timeout: float = START_TIMEOUT) -> None:
        self.workspace = workspace or Workspace()
        self._start_timeout = start_timeout
        self._lock = threading.Lock()
        self._keeper: _Keeper | None = None
        self._nurseries: dict[WorkerKind, _Nursery] = {}
        self._starting: dict[WorkerKind, threading.Lock] = defaultdict(threading.Lock)
        self._idle: dict[WorkerKind, list[_Worker]] = defaultdict(list)
        self._warming: set[_Nursery] = set()
        self._busy: set[_Worker] = set()
        self._interruptions = 0
        self._closed = False
        self.deadline = math.inf  # of `time.monotonic`: what runs then is ended, and nothing more is begun

    def run(
        self,
        kind: WorkerKind,
        task: str,
        payload: Mapping[str, Any],
        *,
        timeout: float = 300.0,
        memory_limit: int = 8 << 30,
        fresh: bool = False,
    ) -> Report:
        """Run one task to its end. Raises `WorkerStartError` when the worker cannot even start.

        `fresh` gives the task a process that has run nothing before it, and runs nothing after it.
        """
        began = self._interruptions
        while True:
            with contextlib.suppress(_LostWhileIdle):
                worker = self._acquire(kind, fresh, began)
                return self._run_on(worker, began, kind, task, payload, timeout, memory_limit, fresh)

    def _go_on(self, began: int) -> None:
        """Nothing more is to be done for a call that began before the last interruption."""
        if self._closed or self._interruptions != began:
            raise PoolInterrupted("the pool is closed" if self._closed else "the job was interrupted")
        if time.monotonic() >= self.deadline:
            raise PoolExpired("the time is over")

    def _run_on(
        self,
        worker: _Worker,
        began: int,
        kind: WorkerKind,
        task: str,
        payload: Mapping[str, Any],
        timeout: float,
        memory_limit: int,
        fresh: bool,
    ) -> Report:
        keep = False
        try:
            with self._lock:
                self._go_on(began)
                self._busy.add(worker)
            report = worker.run(task, payload, timeout, memory_limit, lambda: self.deadline)
            keep = report.ending == "done" and worker.jobs < JOBS_PER_WORKER and kind.fork and not fresh
            keep = keep and not worker.has_grown()
        finally:
            with self._lock:
                self._busy.discard(worker)
                keep = keep and not self._closed and not worker.interrupted
                if keep:
                    self._idle[kind].append(worker)
            if not keep:
                worker.dismiss()
        return report

    def _acquire(self, kind: WorkerKind, fresh: bool, began: int) -> _Worker:
        with self._lock:
            self._go_on(began)
            if self._keeper is None:
                self._keeper = _Keeper(self.workspace)
            idle = self._idle[kind]
            if idle and not fresh:
                return idle.pop()
        if not kind.fork:
            return self._warmed(kind, began).become_worker()
        nursery = self._nursery(kind, began)
        try:
            return nursery.fork()
        except (ChannelClosed, ChannelTimeout):  # somebody killed it: once more, from scratch
            with self._lock:
                if self._nurseries.get(kind) is nursery:
                    del self._nurseries[kind]
            nursery.kill()
            return self._nursery(kind, began).fork()

    def _nursery(self, kind: WorkerKind, began: int) -> _Nursery:
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

    def _warmed(self, kind: WorkerKind, began: int) -> _Nursery:
        nursery = self._started(kind, began)
        try:
            with self._lock:
                self._go_on(began)
                self._warming.add(nursery)
            nursery.warm(lambda: self.deadline)
        except BaseException as error:
            nursery.destroy()
            if isinstance(error, WorkerStartError):
                self._go_on(began)  # it was ended by us
            raise
        finally:
            with self._lock:
                self._warming.discard(nursery)
        if self._interruptions != began:  # it is as good as dead: nobody else may have it
            nursery.kill()
            self._go_on(began)
        return nursery

    def _started(self, kind: WorkerKind, began: int) -> _Nursery:
        self._go_on(began)
        try:
            return _Nursery(kind, self.workspace, self._start_timeout)
        except OSError:
            self._go_on(began)  # the workspace went with the pool
            raise

    def interrupt(self) -> None:
        """End all running jobs, also those that still wait for a worker; their callers, in other threads, get
        `PoolInterrupted`. The pool stays usable."""
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
        with self._lock:
            self._closed = True
            workers = [worker for idle in self._idle.values() for worker in idle]
            nurseries = list(self._nurseries.values())
            keeper, self._keeper = self._keeper, None
            self._idle.clear()
            self._nurseries.clear()
        self.interrupt()
        for worker in workers:
            worker.forget()
        for nursery in nurseries:
            nursery.kill()
        if keeper:
            keeper.close()
        self.workspace.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Keeper:
    """A small process that outlives us by a moment, to kill what we leave behind if we are killed ourselves."""

    def __init__(self, workspace: Workspace) -> None:
        reading, self._lifeline = os.pipe()
        self._process = subprocess.Popen(
            keeper_command(reading, _tag(workspace)),
            pass_fds=[reading],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            start_new_session=True,  # Ctrl-C is for us, not for it
        )
        os.close(reading)

    def close(self) -> None:
        os.close(self._lifeline)
        self._process.wait()


class _Nursery:
    """The parent's handle on a nursery process. A thread of ours sorts what it says: who was forked, who has ended."""

    _numbers = itertools.count()

    def __init__(self, kind: WorkerKind, workspace: Workspace, start_timeout: float) -> None:
        self._kind = kind
        self._workspace = workspace
        self._start_timeout = start_timeout
        self._tag = f"{_tag(workspace)}{next(self._numbers)}/"
        self._news = threading.Condition()
        self._forked: dict[int, int] = {}
        self._exits: dict[int, dict[str, Any]] = {}
        self._living: set[int] = set()
        self._gone = False
        self._sending = threading.Lock()
        self._control, theirs = channel_pair()
        self._log = workspace.log_path()
        with theirs:
            self._process = subprocess.Popen(
                [kind.python, "-c", _BOOTSTRAP, str(theirs.fileno()), str(self._log), _package_root(kind.python)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**_environment(kind, workspace), TAG: self._tag},
                cwd=workspace.root / "tmp",
                start_new_session=True,
            )

    def warm(self, end: Callable[[], float]) -> None:
        """Import what is slow. Raises `WorkerStartError`; then it is to be destroyed."""
        kind, log = self._kind, self._log
        began = time.monotonic()
        try:
            self._control.send({"warm": list(kind.warm)})
            answer = self._control.receive(min(self._start_timeout, max(end() - began, 0.0)))
        except ChannelTimeout as error:
            if time.monotonic() >= end():
                raise PoolExpired("the time is over") from error
            raise WorkerStartError(
                f"{kind.name}: its modules were not imported within {self._start_timeout:g} s. {_read(log)}"
            ) from error
        except ChannelClosed as error:
            ending = describe_exit(self._own_status())
            raise WorkerStartError(f"{kind.name}: the process died while starting ({ending}). {_read(log)}") from error
        if not answer["ready"]:
            raise WorkerStartError(answer["error"])
        self._reader = threading.Thread(target=self._listen, name=f"nursery {kind.name}", daemon=True)
        self._reader.start()

    def interrupt(self) -> None:
        """From another thread, while it is warmed: end the process; the thread that waits for it notices."""
        if self._process.returncode is None:
            kill_tree(self._process.pid)

    def fork(self) -> _Worker:
        number = next(self._numbers)
        log = self._workspace.log_path()
        channel, theirs = channel_pair()
        try:
            with theirs, self._sending:
                self._living.add(number)
                self._control.send({"op": "fork", "number": number, "log": str(log)}, theirs.fileno())
            with self._news:
                if not self._news.wait_for(lambda: number in self._forked or self._gone, self._start_timeout):
                    raise ChannelTimeout
                if number not in self._forked:
                    raise ChannelClosed("the nursery is gone")
                pid = self._forked.pop(number)
        except BaseException:
            channel.close()
            raise
        return _Worker(channel, number, pid, log, self)

    def become_worker(self) -> _Worker:
        log = self._workspace.log_path()
        channel, theirs = channel_pair()
        with theirs:
            self._control.send({"op": "serve", "log": str(log)}, theirs.fileno())
        return _Worker(channel, -1, self._process.pid, log, self)

    def exit_of(self, number: int, timeout: float) -> dict[str, Any] | None:
        """How a worker ended, once it has; `None` when that is not known."""
        if number < 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
                return {"status": self._own_status(), "peak_memory": 0}
            return None
        with self._news:
            self._news.wait_for(lambda: number in self._exits or self._gone, timeout)
            return self._exits.get(number)

    def has_lost(self, number: int) -> bool:
        """Has the worker ended, or its nursery, without which no worker lives?"""
        if number < 0:
            return self._process.poll() is not None
        with self._news:
            return self._gone or number in self._exits

    def end_worker(self, number: int) -> None:
        """Kill a worker and all it started. Only the nursery may signal it: it knows whether the pid is still its."""
        if number >= 0:
            with contextlib.suppress(ChannelClosed), self._sending:
                self._control.send({"op": "kill", "number": number})
                return
        kill_tagged(self._tag)

    def forget(self, number: int) -> None:
        with self._news:
            self._living.discard(number)
            self._exits.pop(number, None)

    def _listen(self) -> None:
        while True:
            try:
                message = self._control.receive()
            except ChannelClosed:
                break
            with self._news:
                if "forked" in message:
                    self._forked[message["forked"]] = message["pid"]
                elif message["exited"] in self._living:
                    self._exits[message["exited"]] = message
                self._news.notify_all()
        with self._news:
            self._gone = True
            self._news.notify_all()

    def kill(self) -> None:
        if self._process.returncode is None:
            kill_tree(self._process.pid)
        self._control.hang_up()  # only now: the nursery would end at this, before its family could be listed
        self._reader.join()
        self.destroy()

    def destroy(self) -> None:
        # All of its family is below it, since orphans are adopted; killed first and alone, it would set free those that
        # have dropped the tag. Not reaped yet, its pid cannot be anybody else's.
        if self._process.returncode is None:
            kill_tree(self._process.pid)
        kill_tagged(self._tag)
        self._process.wait()
        self._control.close()

    def _own_status(self) -> int:
        code = self._process.wait()
        return -code if code < 0 else code << 8


class _Worker:
    """The parent's handle on a worker process. Number -1 is a nursery process that became the worker itself."""

    def __init__(self, channel: Channel, number: int, pid: int, log: Path, nursery: _Nursery) -> None:
        self._channel = channel
        self._number = number
        self._pid = pid
        self._log = log
        self._log_before = ""
        self._nursery = nursery
        self.interrupted = False
        self.jobs = 0
        self._began_with = resident_memory(pid)

    def run(
        self, task: str, payload: Mapping[str, Any], timeout: float, memory_limit: int, end: Callable[[], float]
    ) -> Report:
        self.jobs += 1
        self._log_before = ""
        started = time.monotonic()
        begun, stage, peak = False, "", 0
        try:
            self._channel.send({"task": task, "payload": dict(payload)})
            for message in self._messages(timeout, memory_limit, end):
                if "resident" in message:
                    peak = max(peak, message["resident"])
                elif "started" in message:
                    begun = True
                elif "stage" in message:
                    stage = message["stage"]
                elif "expired" in message:
                    raise PoolExpired("the time is over")  # whoever gave us the job ends the process
                elif "ending" in message:
                    self._nursery.end_worker(self._number)
                    self._nursery.exit_of(self._number, END_TIMEOUT)
                    return self._report(message["ending"], started, stage, message["detail"], peak)
                else:
                    return self._finish(message, started, stage, peak)
        except ChannelClosed:
            pass
        if self.interrupted:
            raise PoolInterrupted("the job was interrupted")
        if not begun and self.jobs > 1:
            raise _LostWhileIdle
        ending = self._nursery.exit_of(self._number, END_TIMEOUT / 2)
        detail = describe_exit(ending["status"]) if ending else "lost its connection"
        peak = max(peak, ending["peak_memory"] if ending else 0)
        return self._report("died", started, stage, detail, peak)

    def _messages(self, timeout: float, memory_limit: int, end: Callable[[], float]) -> Iterator[dict[str, Any]]:
        """Messages of the worker, and between them readings of its memory, until the time or the memory is up. A task
        that does many things one after another has the time for each: a lap starts the clock again."""
        deadline = time.monotonic() + timeout
        look = time.monotonic() + _TICK
        while True:
            now = time.monotonic()
            if now >= deadline:
                yield {"ending": "timeout", "detail": "no answer in time"}
                return
            if now >= end():
                yield {"expired": True}
                return
            if now >= look:
                look = now + _TICK
                resident = resident_memory(self._pid)
                yield {"resident": resident}
                if resident > memory_limit:
                    yield {"ending": "memory", "detail": f"used {resident >> 20} MiB of {memory_limit >> 20} MiB"}
                    return
                self._bound_log()
                if self._nursery.has_lost(self._number):  # its socket may live on in a process that it forked
                    return
            with contextlib.suppress(ChannelTimeout):
                message = self._channel.receive(max(min(look, deadline) - now, 0.0))
                if "lap" in message:
                    deadline = time.monotonic() + timeout
                else:
                    yield message

    def _bound_log(self) -> None:
        """A task that prints without end must not fill the disk; the end of what it printed is kept."""
        with contextlib.suppress(OSError):
            if self._log.stat().st_size > LOG_LIMIT:
                self._log_before = _read(self._log)
                os.truncate(self._log, 0)

    def _finish(self, message: dict[str, Any], started: float, stage: str, peak: int) -> Report:
        peak = max(peak, message["peak_memory"])
        if message.get("memory_error"):
            return self._report("memory", started, stage, "MemoryError", peak)
        if "error" in message:
            raise InternalError(f"{message['error']}\n{message['traceback']}")
        return self._report("done", started, stage, "", peak, message["result"])

    def _report(
        self,
        ending: str,
        started: float,
        stage: str,
        detail: str,
        peak: int,
        result: dict[str, Any] | None = None,
    ) -> Report:
        seconds = time.monotonic() - started
        log = tail(self._log_before + _read(self._log))
        return Report(ending, result or {}, stage, detail, log, seconds, peak)

    def has_grown(self) -> bool:
        """Does it hold on to much memory, such as a model that its compiler keeps?"""
        return resident_memory(self._pid) > self._began_with + GROWTH

    def interrupt(self) -> None:
        """From another thread: end the process; the thread that waits for it notices."""
        self._nursery.end_worker(self._number)

    def dismiss(self) -> None:
        """End the process, if it has not ended, and let go of it."""
        self._nursery.end_worker(self._number)
        self.forget()
        if self._number < 0:
            self._nursery.kill()
        with contextlib.suppress(OSError):
            os.unlink(self._log)

    def forget(self) -> None:
        self._channel.close()
        self._nursery.forget(self._number)


# Workers in other environments do not have Driftline installed: they find it through a folder with one link.
# The working folder, which compilers write to, is no place to import from.
_BOOTSTRAP = (
    "import sys; root = sys.argv.pop(3); sys.path[:] = [root] * bool(root) + [p for p in sys.path if p];"
    " from driftline.execute.worker import main; main()"
)


def _package_root(python: str) -> str:
    if python == sys.executable:
        return ""
    package = Path(__file__).resolve().parents[1]
    link = cache_home() / "package" / "driftline"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink() or link.resolve() != package:
        part = link.with_name(f"driftline.{os.getpid()}")
        part.symlink_to(package)
        os.replace(part, link)
    return str(link.parent)


def _tag(workspace: Workspace) -> str:
    return f"{workspace.root}/"


def _environment(kind: WorkerKind, workspace: Workspace) -> dict[str, str]:
    """The worker's variables: one thread, private caches, temporary files inside the workspace."""
    binaries = os.path.dirname(kind.python)
    caches = cache_home() / "compilers"
    inherited = dict(os.environ)
    if kind.python != sys.executable:  # what is meant for our interpreter would mislead another one
        inherited.pop("PYTHONPATH", None)
    return {
        **inherited,
        "PATH": f"{binaries}:{os.environ.get('PATH', '')}",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PIP_REQUIRE_VIRTUALENV": "1",
        "TMPDIR": str(workspace.root / "tmp"),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **dict(kind.variables),
    }


def _read(log: Path) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - 8000, 0))
            return tail(file.read().decode(errors="replace"))
    except OSError:
        return ""
