"""Describe the rows and findings of a `perf check` in words."""

from __future__ import annotations

from driftline.core.target import Target
from driftline.core.verdict import Kind
from driftline.measure.estimate import Estimate
from driftline.measure.words import milliseconds, times
from driftline.perf.result import GrowthRow, PerfRow
from driftline.perf.twins import MADE_TWINS


def row_words(row: PerfRow) -> str:
    """Describe a row in one line."""
    if row.problem:
        return row.problem
    found = row.measured[-1]
    return f"{times(found.ratio)}, {row.conclusion} (noise {row.floor:.2f}x)"


def growth_words(row: GrowthRow) -> str:
    if row.problem:
        return row.problem
    time, memory = exponent(row.time_exponents[-1]), exponent(row.memory_exponents[-1])
    told = f"time grows as nodes^{time}, memory as nodes^{memory}"
    return f"{told}: {', '.join(row.found)}" if row.found else told


def exponent(found: Estimate) -> str:
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"


def slow_sentence(row: PerfRow, limit: float) -> str:
    """Return the sentence that describes a slow program."""
    first, again = row.measured[0], row.measured[-1]
    same_device = {"eager": "eager", "twin": "a twin program of the same meaning", **MADE_TWINS}
    than = same_device.get(row.against, row.against)
    sides = (row.target,) if row.against in same_device else (row.target, row.against)
    clock = "CPU" if all(Target.parse(side).device == "cpu" for side in sides) else "wall"
    return (
        f"takes {times(first.ratio)} as long as {than} ({milliseconds(first.own_seconds)} ms against"
        f" {milliseconds(first.other_seconds)} ms of {clock} time), and {times(again.ratio)} in other processes; the"
        f" limit is {limit:g}x, and the noise of the machine {row.floor or 1.0:.2f}x"
    )


def growth_sentence(row: GrowthRow, kind: str, limit: float) -> str:
    """Return the sentence that describes a growth finding."""
    exponents = row.memory_exponents if kind == Kind.MEMORY else row.time_exponents
    what = "the memory of compiling" if kind == Kind.MEMORY else "compile time"
    if kind == Kind.MEMORY:
        amount = f"{row.memory[0] >> 20} MiB at {row.nodes[0]} nodes, {row.memory[-1] >> 20} MiB at {row.nodes[-1]}"
    else:
        amount = f"{row.seconds[0]:.2f} s at {row.nodes[0]} nodes, {row.seconds[-1]:.2f} s at {row.nodes[-1]}"
    return (
        f"{what} grows as nodes^{exponent(exponents[0])}, and nodes^{exponent(exponents[-1])} in a second series"
        f" ({amount}); the limit is {limit:g}"
    )
