"""Show in a script that a compiler is slow: both sides run in turn, and the script prints the CPU time of a call of
each.

A side is an expression that evaluates to a function without arguments. Conversion and compilation happen before, so
only the cost of a call is timed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driftline.core.quoting import string
from driftline.report.scripts.recipe import Check

_TIMED = """\
def timed(call, calls):
    began = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - began) / calls
"""
_MEDIANS = """\
def medians(calls):
    \"\"\"The median CPU time of each call, in 20 rounds in which they take turns.\"\"\"
    for call in calls:
        call()  # compiles, where that was not done before
    counts = [max(1, int(0.05 / max(timed(call, 1), 1e-5))) for call in calls]
    rounds = [[timed(call, count) for call, count in zip(calls, counts)] for _ in range(20)]
    return map(statistics.median, zip(*rounds))
"""


@dataclass(frozen=True)
class TimedSide:
    """One side of a timing script: its name, and an expression for a function that runs it."""

    name: str
    call: str


def timing_check(sides: tuple[TimedSide, TimedSide], setup: Sequence[str], limit: float) -> Check:
    """Return the end of a script that times a compiler against a baseline. `setup`: lines that both sides need."""
    own, other = sides
    lines = [
        *setup,
        f"own, other = medians([{own.call}, {other.call}])",
        f'print({string(own.name)}, f"takes {{own * 1e3:.3f}} ms of CPU time,", '
        f'{string(other.name)}, f"{{other * 1e3:.3f}} ms")',
        f'sys.exit(f"BUG: {{own / other:.1f}} times as long" if own > {limit:g} * other else 0)',
    ]
    return Check(("import statistics", "import sys", "import time"), (_TIMED, _MEDIANS), tuple(lines))
