"""Make the numbers of a program rounder.

If one question takes several inputs, all ways to round all leaves at once are tried, the roundest first; otherwise each
leaf by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from driftline.core.tensors import Array
from driftline.diagnose.reduce.graph import ProgramGraph, ProgramLeaf
from driftline.diagnose.reduce.leaves import ArrayChange, changed, with_leaf
from driftline.diagnose.reduce.values import Values
from driftline.programs.literals import READ_AT_ONCE
from driftline.programs.number_formulas import formulas

ELEMENTWISE = 24  # larger arrays are not looked at element by element
WAYS = 128  # ways to round all inputs; where there are more, one input after the other
_FEW = 4  # elements of which a part and the rest are rounded at once
_MANY = 4096  # elements of which no more than one version at a time is made


def rounder(values: Values, graph: ProgramGraph) -> Iterator[ProgramGraph]:
    """Yield programs with one leaf changed: whole arrays first, then parts of small ones."""
    for change in ROUNDER:
        for at in sorted(range(len(graph.leaves)), key=lambda at: graph.leaves[at].roughness):
            yield with_leaf(values, graph, at, change)
    for at, leaf in enumerate(graph.leaves):
        for change in _in_parts(leaf):
            yield with_leaf(values, graph, at, change)


def all_rounder(values: Values, graph: ProgramGraph) -> list[ProgramGraph]:
    """Return versions of the program with rounder inputs, the roundest first."""
    if graph.size.elements > _MANY:
        return []
    versions = [[leaf] if leaf.constant else _versions(values, leaf) for leaf in graph.leaves]
    ways: Iterable[Sequence[ProgramLeaf]] = itertools.product(*versions)
    if prod(map(len, versions)) > WAYS:
        ways = (
            (*graph.leaves[:at], version, *graph.leaves[at + 1 :]) for at, own in enumerate(versions) for version in own
        )
        whole = [own[: 1 + len(ROUNDER)] for own in versions]
        if prod(map(len, whole)) <= WAYS:
            ways = itertools.chain(ways, itertools.product(*whole))
    made = {g.key: g for g in (replace(graph, leaves=tuple(leaves)) for leaves in ways)}
    return sorted((g for g in made.values() if g.size < graph.size), key=lambda g: g.size)


def _versions(values: Values, leaf: ProgramLeaf) -> list[ProgramLeaf]:
    """Return the leaf and rounder versions of it; the boldest first."""
    changes: list[ArrayChange] = [*ROUNDER]
    for part in _in_parts(leaf):
        changes.append(part)
        if prod(leaf.type.shape) <= _FEW:
            changes.append(partial(_and_rounded, change=part))
    made = {v.data: v for v in (changed(values, leaf, change) for change in changes) if v.roughness < leaf.roughness}
    return [leaf, *made.values()]


def _in_parts(leaf: ProgramLeaf) -> Iterator[ArrayChange]:
    """Yield changes that set ever smaller parts of a small array to 0 or 1."""
    count = prod(leaf.type.shape)
    if not leaf.roughness or not 1 < count <= ELEMENTWISE:
        return
    width = count
    while width > 1:
        width = -(-width // 2)
        for start in range(0, count, width):
            for value in (0, 1):
                yield partial(_filled, start=start, stop=start + width, value=value)


def _filled(array: Array, start: int, stop: int, value: int) -> Array:
    changed = array.copy()
    changed.reshape(-1)[start:stop] = value
    return changed


def _and_rounded(array: Array, change: ArrayChange) -> Array:
    return _rounded(change(array))


def _rounded(array: Array) -> Array:
    if array.dtype.kind in "biu":
        return np.clip(array, 0, 3).astype(array.dtype)
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return np.round(wide).astype(array.dtype)


def _one_digit(array: Array) -> Array:
    if array.dtype.kind in "biu":
        return array
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return np.round(wide, 1).astype(array.dtype)


def _drawn(array: Array) -> Array:
    """Replace a large array that no short formula gives by one that is drawn from a seed."""
    known = [formula for formula in formulas(array.dtype.name) if formula.seeded]
    if array.size <= READ_AT_ONCE or not known:
        return array
    return known[-1].array(array.shape, array.dtype.name)


ROUNDER: tuple[Callable[[Array], Array], ...] = (
    np.zeros_like,
    np.ones_like,
    lambda array: (np.arange(array.size) % 4).reshape(array.shape).astype(array.dtype),
    lambda array: np.broadcast_to(array.reshape(-1)[:1], (array.size,)).reshape(array.shape) if array.size else array,
    _rounded,
    _one_digit,
    _drawn,
)
