"""Decides whether a compiler's result for a whole program follows from its results for the failing parts alone.

A part may fail as a known bug does and the rest may pass, while the two, fused together, are wrong in another way. So
the compiler's results for the parts replace the right ones, the reference computes the rest, and the outcome is
compared with the compiler's result for the whole. It may differ by more than one rounding, since the values before a
part come from the reference, not from the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftline.campaign.triage.part_screening import PartScreening
from driftline.checking.batch import Screened, native_of
from driftline.checking.screener import own_results, written_inputs
from driftline.core.tensors import Array, Arrays, is_float
from driftline.diagnose.reduce.cutting import keep
from driftline.diagnose.reduce.generated import everything_returned, write_generated
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph
from driftline.diagnose.reduce.small_parts import OPEN
from driftline.generate.graph import Graph
from driftline.generate.table import OPERATORS


def follows(
    screening: PartScreening,
    failing: Screened,
    graph: Graph,
    base: Evaluated,
    values: Arrays,
    parts: Sequence[ProgramGraph],
) -> bool:
    """True if the whole is wrong in the way that follows from the parts. `values`: the right values, by their number in
    the graph. False for programs that cannot be composed, such as gradients."""
    if graph.grad or graph.transform:
        return False
    whole = screening.first_outputs(screening.again(failing))
    composed = _composed(screening, graph, base, dict(values), parts)
    results = [] if whole is None else own_results(whole)
    right = own_results(native_of(failing.made)[failing.sample]) if failing.made else []
    if whole is None or composed is None or not len(results) == len(right) == len(graph.outputs):
        return False
    # A program may return its own parameters and constants, which are among the values of no run: they are the
    # original ones.
    composed = {str(number): array for number, array in zip(graph.outputs, right, strict=True)} | composed
    if screening.writes_to_inputs:
        names = dict(zip(graph.inputs, screening.inputs(failing), strict=True))
        left = {names[leaf]: composed[str(number)] for leaf, number in last_written(graph).items()}
        if not _inputs_follow(written_inputs(whole), left, screening.inputs(failing)):
            return False
    held = held_in_the_end(graph)
    return all(close(mine, composed[str(held[number])]) for mine, number in zip(results, graph.outputs, strict=True))


def last_written(graph: Graph) -> dict[int, int]:
    """Return the inputs that the program writes to, each with the number of the value that it holds at the end. Writes
    through views are not included."""
    held = held_in_the_end(graph)
    return {number: held[number] for number in graph.inputs if held[number] != number}


def held_in_the_end(graph: Graph) -> dict[int, int]:
    """Return, for each value, the number of the value that its tensor holds when the program returns: the result of the
    last operator that wrote to the tensor in place."""
    homes = {number: number for number in range(len(graph.types()))}
    last = dict(homes)
    for node, numbers in zip(graph.nodes, graph.produced(), strict=True):
        if OPERATORS[node.op].inplace:
            home = homes[numbers[0]] = homes[node.inputs[0]]
            last[home] = numbers[0]
    return {number: last[home] for number, home in homes.items()}


def _inputs_follow(came: Arrays, composed: Arrays, before: Arrays) -> bool:
    """True if the inputs hold, after the compiler's run, the values that follow from the parts. An input that the
    compiler does not report is unchanged; one that it reports but no operator writes to gives False."""
    if came.keys() - composed.keys():
        return False
    return all(close(came.get(name, before[name]), array) for name, array in composed.items())


def _composed(
    screening: PartScreening, graph: Graph, base: Evaluated, values: Arrays, parts: Sequence[ProgramGraph]
) -> Arrays | None:
    """Return the values of the program with the compiler's results for the parts, or None if they cannot be
    computed."""
    producers = base.graph.producers
    left = set(range(len(base.graph.nodes)))
    for part in sorted(parts, key=lambda one: min(number for node in one.nodes for number in node.outputs)):
        written = write_generated(part, graph)
        sources = [leaf.number for leaf in part.leaves]
        (came,) = screening.first_results([screening.on_arrays(written, values, sources)])
        if came is None or len(came) != len(part.outputs):
            return None
        values |= {str(number): array for number, array in zip(part.outputs, came, strict=True)}
        left -= {producers[number] for node in part.nodes for number in node.outputs}
        rest = keep(base, left, OPEN) if left else None
        if rest is None:
            continue
        made = [number for node in rest[0].nodes for number in node.outputs]
        request = screening.on_arrays(
            everything_returned(write_generated(rest[0], graph)), values, [leaf.number for leaf in rest[0].leaves]
        )
        computed = screening.references(request)
        if computed is None or len(computed) != len(made):
            return None
        values |= {str(number): array for number, array in zip(made, computed, strict=True)}
    return values


def close(mine: Array, other: Array) -> bool:
    """True if two arrays are equal; floats may differ by half of the digits."""
    if mine.shape != other.shape or mine.dtype != other.dtype:
        return False
    if not is_float(mine.dtype.name):
        return bool(np.array_equal(mine, other))
    allowed = half_of_the_digits(mine.dtype)
    mine, other = mine.astype(np.float64), other.astype(np.float64)
    finite = np.abs(other[np.isfinite(other)])
    return np.allclose(mine, other, rtol=allowed, atol=allowed * float(finite.max(initial=0.0)), equal_nan=True)


def half_of_the_digits(dtype: np.dtype[Any]) -> float:
    """Return half of the digits of a float type, as a relative difference."""
    import ml_dtypes

    return float(np.sqrt(float(ml_dtypes.finfo(dtype).eps)))
