"""Ends processes with everything they started, and reads their resource usage. Linux's /proc, standard library only.

The descendants of a worker are found by the process tree and by a *tag*, an environment variable that every process
under a nursery inherits. The tree is exact while its root lives; the tag finds orphans.

Run as a program, this file is the *keeper*: it waits until its parent is gone, for whatever reason, and then kills
every process with the parent's tag. It imports nothing that could hang.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import NamedTuple

TAG = "DRIFTLINE_WORKER"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ROUNDS = 100  # reads of a tree that grows while it is being stopped


def children(pid: int) -> list[int]:
    """Return the direct children of a process; an empty list if it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.scandir(f"/proc/{pid}/task"):
            try:
                with open(f"{thread.path}/children") as file:
                    found += map(int, file.read().split())
            except FileNotFoundError:
                if not _CHILDREN_FILES:
                    return [child for child in _all_pids() if _parent(child) == pid]
    return found


# Kernels may be built without these files; then the parents of all processes are read instead.
_CHILDREN_FILES = os.access(f"/proc/self/task/{os.getpid()}/children", os.R_OK)


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])  # the name before it may hold spaces and brackets
    return 0


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process, nearest first."""
    found: list[int] = []
    queue = [pid]
    while queue:
        below = children(queue.pop())
        found += below
        queue += below
    return found


def kill(pids: Iterable[int]) -> None:
    _signal(pids, signal.SIGKILL)


def kill_tree(pid: int) -> None:
    """Send SIGKILL to a process and all its descendants. The caller must know that the pid is still that process.

    They are stopped before any is killed: a process that forks without end is faster than the code that reads its tree.
    """
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        fresh = {pid, *descendants(pid)} - stopped
        if not fresh:
            break
        _signal(fresh, signal.SIGSTOP)
        stopped |= fresh
    kill(stopped)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def tagged(prefix: str) -> list[int]:
    """Return the living processes whose tag begins with `prefix`."""
    wanted = f"{TAG}={prefix}".encode()
    found = []
    for pid in _all_pids():
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if pid != os.getpid() and any(entry.startswith(wanted) for entry in file.read().split(b"\0")):
                found.append(pid)
    return found


def kill_tagged(prefix: str, patience: float = 5.0) -> None:
    """Kill all processes with this tag, and those that they start meanwhile, until there are none or the time is
    over."""
    deadline = time.monotonic() + patience
    while (found := tagged(prefix)) and time.monotonic() < deadline:
        for pid in found:
            kill_tree(pid)
        time.sleep(0.005)  # the kernel needs a moment, and processes that are not children cannot be waited for


class TreeUsage(NamedTuple):
    """The resources of a process and its descendants; zero memory if the process is gone."""

    memory: int  # bytes that are resident
    processes: int


def tree_usage(pid: int) -> TreeUsage:
    """Return the memory and the number of processes of a process tree."""
    members = (pid, *descendants(pid))
    resident = 0
    for member in members:
        with contextlib.suppress(OSError), open(f"/proc/{member}/statm") as file:
            resident += int(file.read().split()[1]) * _PAGE
    return TreeUsage(resident, len(members))


def describe_exit(status: int) -> str:
    """Describe a wait status: `SIGSEGV`, `exit code 3`."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(ValueError):  # real-time signals have no name
            return signal.Signals(number).name
        return f"signal {number}"
    return f"exit code {os.waitstatus_to_exitcode(status)}"


def keeper_command(lifeline: int, prefix: str) -> list[str]:
    """Return the command that starts a keeper on the reading end of a pipe. Isolated mode, so that it always starts,
    and fast."""
    return [sys.executable, "-I", "-S", __file__, str(lifeline), prefix]


def _keep(lifeline: int, prefix: str) -> None:
    while os.read(lifeline, 64):  # returns nothing once the last writer is gone
        pass
    kill_tagged(prefix)


if __name__ == "__main__":
    _keep(int(sys.argv[1]), sys.argv[2])
