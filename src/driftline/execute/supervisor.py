"""A process that runs one untrusted program in the sandbox, limits it, and removes all its processes.

`confined.py` starts it. It adopts the program's orphans, so that a process which left its group and session is still
found. It ends everything when the program has ended, when the program has used up its time, memory or processes, and
when the process that started it is gone: then the pipe on its standard input is closed. It writes to a descriptor, as
JSON, how the program ended.

Standard library only: it starts with `-I -S`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import sys
import time
from dataclasses import asdict, dataclass

from driftline.execute import sandbox
from driftline.execute.processes import children, kill_tree, tree_usage

_PR_SET_CHILD_SUBREAPER = 36
_TICK = 0.1  # seconds between two checks of memory and processes
_PATIENCE = 10.0  # seconds for killed processes to end
NO_SANDBOX = 119  # the exit code of a program that could not be put into its sandbox


@dataclass(frozen=True)
class ConfinedOrder:
    """The program to run and its limits. The parent sends it as JSON."""

    command: tuple[str, ...]
    variables: dict[str, str]
    writable: tuple[str, ...]
    seconds: float
    memory: int  # bytes of all processes together
    processes: int
    file_size: int  # bytes of one file


@dataclass(frozen=True)
class ConfinedEnd:
    """How the program ended. `status` is that of `os.wait`; `None` if the supervisor ended the program."""

    status: int | None
    why: str = ""


def main() -> None:
    """Run one program under supervision and report how it ended."""
    order = ConfinedOrder(**json.loads(sys.argv[2]))
    report = int(sys.argv[1])
    os.set_inheritable(report, False)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    pid = os.fork()
    if pid == 0:
        _become(order)
    try:
        outcome = _watch(pid, order)
    finally:
        _end_all()
    os.write(report, json.dumps(asdict(outcome)).encode())


def _become(order: ConfinedOrder) -> None:
    """Enter the sandbox and execute the program; runs in the child process."""
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        limit = order.file_size if most == resource.RLIM_INFINITY else min(most, order.file_size)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        sandbox.enter(order.writable)
        os.execvpe(order.command[0], list(order.command), order.variables)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(NO_SANDBOX)


def _watch(pid: int, order: ConfinedOrder) -> ConfinedEnd:
    """Wait until the program has ended or exceeded a limit."""
    deadline = time.monotonic() + order.seconds
    ended = os.pidfd_open(pid)
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return ConfinedEnd(None, f"it did not end within {order.seconds:.0f} s")
        ready, _, _ = select.select([ended, 0], [], [], min(_TICK, left))
        if ended in ready:
            return ConfinedEnd(os.waitpid(pid, 0)[1])
        if 0 in ready:
            return ConfinedEnd(None, "nobody waits for it any more")
        used = tree_usage(os.getpid())
        if used.memory > order.memory:
            return ConfinedEnd(None, f"it used more than {order.memory >> 20} MiB of memory")
        if used.processes > order.processes:
            return ConfinedEnd(None, f"it started more than {order.processes} processes")


def _end_all() -> None:
    """Kill everything below this process, including adopted orphans, and wait for the end."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        for child in children(os.getpid()):
            kill_tree(child)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            time.sleep(0.002)  # others are ending, or becoming children of this process
            continue
        return
