"""Change the values of a leaf, with its type and layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from driftline.core.tensors import Array
from driftline.diagnose.reduce.graph import ProgramGraph, ProgramLeaf
from driftline.diagnose.reduce.values import Values, roughness

ArrayChange = Callable[[Array], Array]


def names_axes(leaf: ProgramLeaf) -> bool:
    """True for short lists of integers, which often name axes or sizes."""
    return leaf.type.dtype == "int64" and len(leaf.type.shape) == 1


def with_leaf(values: Values, graph: ProgramGraph, at: int, change: ArrayChange) -> ProgramGraph:
    """Return the program with the values of one leaf changed."""
    leaves = (*graph.leaves[:at], changed(values, graph.leaves[at], change), *graph.leaves[at + 1 :])
    return replace(graph, leaves=leaves)


def changed(values: Values, leaf: ProgramLeaf, change: ArrayChange) -> ProgramLeaf:
    """Apply a change to the arrays of a leaf, and return the leaf with its new type and data."""
    with np.errstate(all="ignore"):
        arrays = [np.asarray(change(array), order="C") for array in values.load(leaf.data)]
    shape = tuple(arrays[0].shape)
    strides = leaf.type.strides if shape == leaf.type.shape else _scaled(leaf.type.strides, leaf.type.shape, shape)
    kind = replace(leaf.type, dtype=arrays[0].dtype.name, shape=shape, strides=strides)
    return replace(leaf, type=kind, data=values.save(arrays), roughness=roughness(arrays))


def _scaled(strides: tuple[int, ...], old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides of the same axis order for another shape; empty (contiguous) if there are none."""
    if not strides or len(old) != len(new):
        return ()
    packed, step = [0] * len(new), 1
    for axis in sorted(range(len(new)), key=lambda axis: strides[axis]):
        packed[axis] = 0 if strides[axis] == 0 else step
        step *= 1 if strides[axis] == 0 else new[axis]
    return tuple(packed)
