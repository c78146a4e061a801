"""How far an operation carries the rounding of its arguments.

For operations that have no rule of their own: whatever goes on inside, a careful implementation gives what the
operation makes of arguments that were rounded once. Where that is far off, as after a cancellation, so may a compiler
be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from driftline.core.tensors import Array

DRAWS = 3


def carried(
    operation: Callable[[list[Any]], Any], arguments: Sequence[Any], expected: Array, unit: float
) -> Array | float:
    """The farthest that each element moves from what is expected when the arguments are rounded at random. Nothing
    when the operation does not run on such arguments, or when the shape of its result depends on them."""
    rng = np.random.default_rng(0)
    farthest: Array | float = 0.0
    for _ in range(DRAWS):
        try:
            with np.errstate(all="ignore"):
                result = np.asarray(operation([_rounded(argument, unit, rng) for argument in arguments]))
        except Exception:  # an argument that must be an exact number, such as a size
            return 0.0
        if result.shape != expected.shape:
            return 0.0
        with np.errstate(all="ignore"):
            moved = np.abs(result - expected)
        farthest = np.maximum(farthest, np.where(np.isfinite(moved), moved, 0.0))
    return farthest


def _rounded(argument: Any, unit: float, rng: np.random.Generator) -> Any:
    if not isinstance(argument, np.ndarray) or argument.dtype != np.float64:
        return argument
    return argument * (1.0 + unit * rng.uniform(-1.0, 1.0, argument.shape))
