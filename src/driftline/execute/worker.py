"""The process that runs compilers. Standard library (and numpy, in the tasks) only.

It starts as a *nursery*: it imports what is slow to import, then waits. Asked to, it forks a *worker* that inherits the
warm modules, gets a socket of its own and serves one job after another. When a worker dies, the nursery forks the next
one in milliseconds. Where forking is unsafe (a GPU), the process turns into the single worker itself (`serve`).

Nobody is left behind: the nursery kills its workers when its parent's socket closes, and the kernel kills a worker when
its nursery dies.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from typing import Any

from driftline.execute.channel import Channel, ChannelClosed

_PR_SET_PDEATHSIG = 1


class Context:
    """What a task may say while it works."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def enter(self, stage: str) -> None:
        """Announce a stage, so that a crash can be placed."""
        self._channel.send({"stage": stage})


def main() -> None:
    control = Channel(socket.socket(fileno=int(sys.argv[1])))
    log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    _redirect(log)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.dont_write_bytecode = True
    try:
        warm = control.receive()["warm"]
        started = time.monotonic()
        for path, argument in warm:
            _resolve(path)(argument)
        control.send({"ready": True, "seconds": time.monotonic() - started})
    except ChannelClosed:
        return
    except BaseException as error:  # the import of a compiler may do anything, sys.exit included
        traceback.print_exc()
        control.send({"ready": False, "error": f"{type(error).__name__}: {error}"})
        return
    _Nursery(control).run()


class _Nursery:
    """Forks workers and tells the parent how they ended."""

    def __init__(self, control: Channel) -> None:
        self._control = control
        self._children: set[int] = set()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def run(self) -> None:
        try:
            while True:
                ready, _, _ = select.select([self._control, self._wake_read], [], [])
                if self._wake_read in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_read, 4096)
                    self._reap()
                if self._control in ready:
                    message, fds = self._control.receive_with_fds()
                    if message["op"] == "fork":
                        self._fork(message["log"], fds[0])
                    elif message["op"] == "serve":
                        self._become_worker(message["log"], fds[0])
                        return
        except ChannelClosed:
            pass
        finally:
            for pid in self._children:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)

    def _fork(self, log: str, fd: int) -> None:
        nursery = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.setsid()
                _die_with_parent(nursery)
                self._become_worker(log, fd)
                status = 0
            finally:
                os._exit(status)
        os.close(fd)
        self._children.add(pid)
        self._control.send({"forked": pid})

    def _become_worker(self, log: str, fd: int) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._children = set()
        self._control.close()
        serve(Channel(socket.socket(fileno=fd)), log)

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._children:
                self._children.discard(pid)
                self._control.send({"exited": pid, "status": status, "peak_memory": usage.ru_maxrss * 1024})


def serve(channel: Channel, log: str) -> None:
    """Run jobs until the socket closes. A job names a function; its answer or its exception goes back as JSON."""
    log_fd = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    _redirect(log_fd)
    faulthandler.enable()
    context = Context(channel)
    while True:
        try:
            job = channel.receive()
        except ChannelClosed:
            return
        os.ftruncate(log_fd, 0)
        try:
            answer: dict[str, Any] = {"result": _resolve(job["task"])(job["payload"], context)}
        except MemoryError:
            answer = {"memory_error": True}
        except BaseException as error:
            # A task turns the compiler's errors into values; what arrives here is a mistake of the task's.
            answer = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
        sys.stdout.flush()
        sys.stderr.flush()
        answer["peak_memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        try:
            channel.send(answer)
        except ChannelClosed:
            return


def _resolve(path: str) -> Any:
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _redirect(fd: int) -> None:
    os.dup2(fd, 1)
    os.dup2(fd, 2)


def _die_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call above
        os._exit(1)


if __name__ == "__main__":
    main()
