"""Computes how many tasks may run at once: one for each processor, fewer if memory is short."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

# Peak memory of a task, beyond the memory shared with the process from which it was forked: a worker that makes and
# judges programs, one that compiles, and the C++ compiler below it (`benchmarks/scaling.py` measures it).
TASK_MEMORY = 3 << 29
_CONTROL_GROUP = Path("/sys/fs/cgroup")


def all_cores() -> int:
    """Return the number of processors that this process may use; a container may allow fewer than the machine has."""
    cores = len(os.sched_getaffinity(0))
    with contextlib.suppress(OSError, ValueError):
        quota, period = (_CONTROL_GROUP / "cpu.max").read_text().split()
        return max(1, min(cores, math.ceil(int(quota) / int(period))))  # "max": no limit, and no number
    return cores


def free_memory() -> int:
    """Return the bytes of memory that are still available; in a container, within its limit."""
    import psutil  # so that commands that run no program start without it

    free = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError):
        allowed = int((_CONTROL_GROUP / "memory.max").read_text())
        used = int((_CONTROL_GROUP / "memory.current").read_text())
        lines = (line.split() for line in (_CONTROL_GROUP / "memory.stat").read_text().splitlines())
        given_back = next((int(size) for name, size in lines if name == "inactive_file"), 0)  # cached file pages
        free = min(free, allowed - used + given_back)
    return max(0, free)


def usual_jobs() -> int:
    """Return the default number of tasks to run at once."""
    return max(1, min(all_cores(), free_memory() // TASK_MEMORY))
