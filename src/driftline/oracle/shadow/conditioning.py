"""Measure how far rounding the arguments of an operation moves its result.

This serves operations without a rule: whatever the implementation, a careful one returns the result for arguments that
were rounded once. Where that differs much, as after a cancellation, a compiler's result may differ as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from driftline.core.tensors import Array

DRAWS = 3
_FINER = 256.0  # a linear result moves that much less under the smaller rounding, a root a 16th as much
_STEEPEST = 8.0


def carried(
    operation: Callable[[list[Any]], Any], arguments: Sequence[Any], expected: Array, unit: float
) -> Array | float:
    """Return how far each element moves from `expected`, at most, when the arguments are rounded at random.

    Returns 0 if the operation fails on such arguments or changes the shape of its result. Elements that a far smaller
    rounding moves as far count as 0 too: the operation has a step there, which exact arguments do not cross.
    """
    rng = np.random.default_rng(0)
    farthest: Array | float = 0.0
    for _ in range(DRAWS):
        directions = [rng.uniform(-1.0, 1.0, a.shape) if _is_rounded(a) else 0.0 for a in arguments]
        moves = [_moved(operation, arguments, directions, expected, size) for size in (unit, unit / _FINER)]
        if moves[0] is None or moves[1] is None:
            return 0.0
        farthest = np.maximum(farthest, np.where(_STEEPEST * moves[1] <= moves[0], moves[0], 0.0))
    return farthest


def _moved(
    operation: Callable[[list[Any]], Any],
    arguments: Sequence[Any],
    directions: Sequence[Array | float],
    expected: Array,
    unit: float,
) -> Array | None:
    """Return how far each element moves when the arguments move by `unit` in the given directions, or `None` on
    failure."""
    moved = [
        argument * (1.0 + unit * direction) if _is_rounded(argument) else argument
        for argument, direction in zip(arguments, directions, strict=True)
    ]
    with np.errstate(all="ignore"):
        try:
            result = np.asarray(operation(moved))
        except Exception:  # an argument that must not be rounded, such as a size
            return None
        if result.shape != expected.shape:
            return None
        distance = np.abs(result - expected)
    return np.where(np.isfinite(distance), distance, 0.0)


def _is_rounded(argument: Any) -> bool:
    return isinstance(argument, np.ndarray) and argument.dtype == np.float64
