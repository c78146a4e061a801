"""How many targets may have a program in memory at the same time."""

from __future__ import annotations

import psutil

from driftline.core.program import Program

BIG = 512 << 20  # bytes of weights: two compilers at once would need gigabytes, whatever is free now
TIMES = 6  # a compiler may hold the weights this often at its peak: as loaded, packed, and folded


def jobs_for(program: Program, jobs: int) -> int:
    """So many at a time, or one alone where the program is big, or big for the memory that is free."""
    if program.weights >= BIG:
        return 1
    room = psutil.virtual_memory().available
    return max(1, min(jobs, int(room // (TIMES * program.weights)))) if program.weights else jobs
