"""Limits how many targets may have a program in memory at the same time."""

from __future__ import annotations

import psutil

from driftline.core.program import Program

BIG = 512 << 20  # bytes of weights: two compilers at once would need gigabytes, however much memory is free
TIMES = 6  # copies of the weights that a compiler may hold at its peak: loaded, packed, and folded


def jobs_for(program: Program, jobs: int) -> int:
    """Return the number of targets to run at a time: `jobs`, or fewer for programs that are big for the free memory."""
    if program.weights >= BIG:
        return 1
    room = psutil.virtual_memory().available
    return max(1, min(jobs, int(room // (TIMES * program.weights)))) if program.weights else jobs
