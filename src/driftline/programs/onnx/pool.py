"""Pooling with the same bits as the ONNX project's reference evaluator, but many windows at a time.

The evaluator collects every window in Python, which makes references of models with AveragePool slow, and takes eight
of the ten seconds in which the standard's node tests are generated. Here, windows that have the same elements (all of
them, or all but those beyond one edge) are reduced together. numpy adds the elements of a row in the same order whether
there is one row or many, so the sums are the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
from onnx.reference.ops import op_pool_common

from driftline.core.tensors import Array

_own = op_pool_common.pool


@contextlib.contextmanager
def quick_pooling() -> Iterator[None]:
    """Make the evaluator, and what is imported in the block, use this pooling."""
    before = op_pool_common.pool
    op_pool_common.pool = pool
    try:
        yield
    finally:
        op_pool_common.pool = before


def pool(
    padded: Any,
    x_shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    out_shape: Sequence[int],
    pooling_type: str,
    pads_required: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    count_include_pad: int = 0,
    p: int = 1,
) -> Any:
    """Pool like the evaluator's function, with its signature and its restrictions."""
    kinds: dict[str, Callable[[Array], Any]] = {"AVG": _mean, "MAX": _largest, "LPPOOL": lambda block: _norm(block, p)}
    rank = len(x_shape) - 2
    around = _for_both_ends(pads_required, rank)
    beyond = _for_both_ends(pads, rank)
    apart = [1] * rank if dilations is None else list(dilations)
    steps = strides or [1] * rank
    spans = [1 + (kernel[axis] - 1) * apart[axis] for axis in range(rank)]
    room = [x_shape[axis + 2] + around[axis] + around[axis + rank] for axis in range(rank)]
    counts = [max(0, int((room[axis] - spans[axis]) / steps[axis] + 1)) for axis in range(rank)]
    limits = [x_shape[axis + 2] + beyond[axis] + beyond[axis + rank] for axis in range(rank)]
    places = [
        steps[axis] * np.arange(counts[axis])[:, None] + apart[axis] * np.arange(kernel[axis]) for axis in range(rank)
    ]
    fits = all(limits[axis] <= padded.shape[axis + 2] for axis in range(rank))
    if pooling_type not in kinds or not fits or padded.shape[:2] != tuple(x_shape[:2]):
        own = (padded, x_shape, kernel, strides, out_shape, pooling_type, pads_required, pads, dilations)
        return _own(*own, count_include_pad, p)
    result = np.zeros([*x_shape[:2], *out_shape], dtype=padded.dtype)
    windows = padded
    for axis in range(rank):  # an axis becomes two: which window, and where in it
        at = 2 + 2 * axis
        windows = np.take(windows, np.minimum(places[axis], padded.shape[2 + axis] - 1), axis=at)
    order = [0, 1, *range(2, 2 + 2 * rank, 2), *range(3, 3 + 2 * rank, 2)]
    inside = reduce(np.logical_and.outer, [places[axis] < limits[axis] for axis in range(rank)])
    inside = inside.transpose([*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)])
    size = int(np.prod(kernel[:rank]))
    values = windows.transpose(order).reshape(-1, size)
    kept = np.broadcast_to(inside, (*x_shape[:2], *inside.shape)).reshape(-1, size)
    if pooling_type == "MAX" or count_include_pad != 1:
        kept = kept & ~np.isnan(values)
    pooled = np.zeros(len(values), padded.dtype)
    for rows, columns in _alike(kept):
        pooled[rows] = kinds[pooling_type](np.ascontiguousarray(values[rows][:, columns]))
    result[(slice(None), slice(None), *map(slice, counts))] = pooled.reshape(*x_shape[:2], *counts)
    return result


def _for_both_ends(given: Sequence[int] | None, rank: int) -> list[int]:
    if given is None:
        return [0] * 2 * rank
    return [*given] * rank * 2 if len(given) == 1 else list(given)


def _alike(kept: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the indices of windows that keep the same elements, with the mask of these elements."""
    whole = kept.all(axis=1)
    if whole.any():
        yield np.flatnonzero(whole), np.ones(kept.shape[1], bool)
    rest = np.flatnonzero(~whole)
    if len(rest):
        patterns, which = np.unique(kept[rest], axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            yield rest[which.reshape(-1) == number], pattern


def _mean(block: Array) -> Any:
    """Return the means of the rows, each as `numpy.average` computes it, which divides in float64."""
    halves = block.dtype == np.float16
    sums = np.add.reduce(block.astype(np.float32) if halves else block, axis=1)
    if halves or block.dtype in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            return (sums.astype(np.float64) / block.shape[1]).astype(block.dtype)
    return np.array([np.average(row) for row in block])


def _largest(block: Array) -> Any:
    return block.max(axis=1)


def _norm(block: Array, p: int) -> Any:
    # numpy's power of an array is another one than that of a number: of one half it is a root
    return [total ** (1.0 / p) for total in np.sum(np.abs(block) ** p, axis=1)]
