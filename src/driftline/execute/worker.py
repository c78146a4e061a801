"""The process that runs compilers. Standard library (and numpy, in the tasks) only.

It starts as a *nursery*: it imports slow modules, then waits. On request it forks a *worker* that inherits the imported
modules, gets a socket of its own and serves one job after another. When a worker dies, the nursery forks the next one
in milliseconds. Where forking is unsafe (a GPU), the process becomes the single worker itself (`serve`).

No process is left behind. Orphans below a worker become its children, and the nursery's once the worker is dead, and
are killed there; the nursery kills its workers when its parent's socket closes; the kernel kills a worker when its
nursery dies; and the keeper (`processes.py`) handles the rest.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import math
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from driftline.core.compiler_caches import move_caches
from driftline.core.task import Service
from driftline.core.vouched import vouch
from driftline.execute import sandbox
from driftline.execute.channel import Channel, ChannelClosed
from driftline.execute.messages import (
    NURSERY,
    WORKER,
    Answered,
    Entered,
    Exited,
    Fork,
    Forked,
    FromNursery,
    FromWorker,
    Job,
    Kill,
    Lap,
    Mistaken,
    NotReady,
    OutOfMemory,
    Ready,
    Serve,
    Started,
    ToNursery,
    Warm,
)
from driftline.execute.processes import children, kill, kill_tree
from driftline.execute.workspace import (
    compiler_caches_of,
    shared_with_parent,
    temporary_folder,
    writable_by_workers,
)

_FILE_LIMIT = 64 << 30  # bytes of one file: far beyond a model, and no disk is filled by one runaway write
_LAP = 0.2  # seconds between two laps that are reported
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class _Context:
    """Sends the stages and laps of a running task to the parent: see `driftline.core.task.Context`."""

    def __init__(self, channel: Channel[FromWorker, Job]) -> None:
        self._channel = channel
        self._last_lap = -math.inf

    def enter(self, stage: str) -> None:
        self._channel.send(Entered(stage))

    def lap(self) -> None:
        """Report a lap, at most a few times a second: the parent listens to many workers, and time-outs are much
        longer."""
        if time.monotonic() - self._last_lap >= _LAP:
            self._last_lap = time.monotonic()
            self._channel.send(Lap())


def main() -> None:
    """Run the process as a nursery until its parent is gone."""
    control = Channel(socket.socket(fileno=int(sys.argv[1])), NURSERY)
    log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    _redirect(log)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _bound_files()
    sys.dont_write_bytecode = True
    _adopt_orphans()
    try:
        warm = control.receive()
        assert isinstance(warm, Warm)
        started = time.monotonic()
        for path, argument in warm.calls:
            _resolve(path)(argument)
        control.send(Ready(time.monotonic() - started))
    except ChannelClosed:
        return
    except BaseException as error:  # importing a compiler may raise anything, even SystemExit
        traceback.print_exc()
        control.send(NotReady(f"{type(error).__name__}: {error}"))
        return
    os._exit(_Nursery(control).run())  # as forked workers do, to skip what compilers do at exit


def _bound_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = _FILE_LIMIT if most == resource.RLIM_INFINITY else min(most, _FILE_LIMIT)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))


class _Nursery:
    """Forks workers, kills them on request, and reports to the parent how they ended. Workers have numbers, which
    unlike process ids are never reused."""

    def __init__(self, control: Channel[FromNursery, ToNursery]) -> None:
        self._control = control
        self._workers: dict[int, int] = {}  # pid -> number; a pid stays valid until this process reaps it
        self._sockets: list[int] = []  # received, for future workers
        self._own = set(children(os.getpid()))  # helper processes that an imported compiler keeps: not orphans
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        gc.collect()
        gc.freeze()  # so that a collection in a worker does not write to the shared pages of the imported modules

    def run(self) -> int:
        """Serve the parent until it is gone. Returns the exit code."""
        try:
            while True:
                watched: list[Any] = [self._control, self._wake_read]
                ready, _, _ = select.select(watched, [], [])
                if self._wake_read in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_read, 4096)
                    self._reap()
                while self._control in ready or self._control.pending:
                    ready = []
                    message, fds = self._control.receive_with_fds()
                    self._sockets += fds
                    match message:
                        case Fork(number, log):
                            self._fork(number, log, self._sockets.pop(0))
                        case Kill(number):
                            self._kill(number)
                        case Serve(log):
                            return self._become_worker(log, self._sockets.pop(0))
        except ChannelClosed:
            return 0
        finally:
            for pid in children(os.getpid()):
                kill_tree(pid)

    def _fork(self, number: int, log: str, fd: int) -> None:
        nursery = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.setsid()
                _die_with_parent(nursery)
                status = self._become_worker(log, fd)
            finally:
                os._exit(status)
        os.close(fd)
        self._workers[pid] = number
        self._control.send(Forked(number, pid))

    def _kill(self, number: int) -> None:
        for pid, known in self._workers.items():
            if known == number:
                kill_tree(pid)

    def _become_worker(self, log: str, fd: int) -> int:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._control.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        for other in self._sockets:
            os.close(other)
        _adopt_orphans()
        return serve(Channel(socket.socket(fileno=fd), WORKER), log)

    def _reap(self) -> None:
        reaped = False
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            reaped = True
            self._own.discard(pid)
            if pid in self._workers:
                number = self._workers.pop(pid)
                self._control.send(Exited(number, status, usage.ru_maxrss * 1024))
        if reaped:  # the orphans of a dead worker are now children of this process; later, so are theirs
            kill(set(children(os.getpid())) - set(self._workers) - self._own)


def serve(channel: Channel[FromWorker, Job], log: str) -> int:
    """Run jobs until the socket closes: call the function that a job names, and send its answer or exception as JSON.
    Returns the exit code: a task that calls `sys.exit` ends the worker."""
    log_fd = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    memory = _open_peak_memory()
    _use_own_folder(temporary_folder(Path(log)))
    move_caches(compiler_caches_of(Path(log)))
    try:
        sandbox.enter(writable_by_workers(Path(log)), [shared_with_parent(Path(log))])
    except OSError:
        os.write(log_fd, traceback.format_exc().encode())
        return 1
    context = _Context(channel)
    try:
        while True:
            job = channel.receive()
            channel.send(Started())
            os.ftruncate(log_fd, 0)
            _restore_streams(log_fd)
            _reset_peak_memory(memory)
            answer = _answer(job, context)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # the task may have closed or replaced it
                    stream.flush()
            try:
                channel.send(replace(answer, peak_memory=_peak_memory()))
            except (TypeError, ValueError) as error:
                channel.send(Mistaken(f"the task's answer is not plain data: {error}", ""))
    except ChannelClosed:
        return 0
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else int(exit.code is not None)


def _use_own_folder(folder: Path) -> None:
    """Make a folder for temporary files and enter it, so that a compiler's leftovers are removed with the worker."""
    folder.mkdir(mode=0o700)
    os.chdir(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def _answer(job: Job, context: _Context) -> Answered | OutOfMemory | Mistaken:
    try:
        vouch(job.vouched)
        service: Service[Any, Any] = _resolve(job.task)
        return Answered(service.answer(job.request, context))
    except MemoryError:
        return OutOfMemory()
    except (SystemExit, ChannelClosed):
        raise
    except BaseException as error:
        # Tasks turn errors of a compiler into values: an exception here is a fault of the task.
        return Mistaken(f"{type(error).__name__}: {error}", traceback.format_exc())


def _resolve(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _redirect(fd: int) -> None:
    os.dup2(fd, 1)
    os.dup2(fd, 2)


def _restore_streams(log_fd: int) -> None:
    """Redirect the output to the log again before every job, since the last one may have changed the streams."""
    _redirect(log_fd)
    for name, fd in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is not getattr(sys, f"__{name}__") or getattr(sys, name).closed:
            stream = open(fd, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
    faulthandler.enable(2)


def _open_peak_memory() -> int:
    """Open the file that resets the peak memory; early, since a sandboxed worker may not write to /proc. Returns -1 if
    there is none."""
    try:
        return os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _reset_peak_memory(fd: int) -> None:
    """Reset the peak memory. Otherwise a worker would report the largest peak of all its jobs."""
    with contextlib.suppress(OSError):
        os.write(fd, b"5")


def _peak_memory() -> int:
    with contextlib.suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _adopt_orphans() -> None:
    """Make this process the new parent of orphans below it, so that they can be found and killed."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _die_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent died before the call above
        os._exit(1)


if __name__ == "__main__":
    main()
