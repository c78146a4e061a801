"""Ending a process and everything it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

import psutil


def kill_tree(pid: int) -> None:
    """SIGKILL to a process, its group and all its descendants, those that changed group included."""
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        family = psutil.Process(pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def resident_memory(pid: int) -> int:
    """Bytes in memory of a process and its descendants; 0 when it is gone."""
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += member.memory_info().rss
    return total


def describe_exit(status: int) -> str:
    """A wait status in words: `SIGSEGV`, `exit code 3`."""
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit code {os.waitstatus_to_exitcode(status)}"


def reap(process: subprocess.Popen[bytes]) -> None:
    """Kill a direct child and collect it, so that no zombie stays."""
    kill_tree(process.pid)
    process.wait()
