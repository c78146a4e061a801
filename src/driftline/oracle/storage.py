"""Values kept in fewer bits than in the program: imitates what a quantised conversion does to each tensor.

Every tensor is rounded to a grid of eight bits over its own range, or constants are rounded to float16. The zero of the
grid is drawn anew for each run, because conversions choose it in different ways.
"""

from __future__ import annotations

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.arithmetic import BYTE_VALUES, HALF_WEIGHTS

LEVELS = 255
OFF_BY = 2.0  # in quanta: up to half by rounding to the grid and half by the kernel, to either side
# Operators whose results use a grid of a fixed range, however small they are.
_FIXED_RANGES = {"Softmax": 1.0, "Sigmoid": 1.0, "Tanh": 2.0, "LogSoftmax": 16.0}


def kept(value: Array, storage: str, rng: np.random.Generator, *, operator: str = "", constant: bool = False) -> Array:
    """Return a float64 tensor as it is read back after being stored in fewer bits."""
    if storage == HALF_WEIGHTS:
        return value.astype(np.float16).astype(np.float64) if constant and rng.random() < 0.5 else value
    assert storage == BYTE_VALUES
    finite = value[np.isfinite(value)]
    if not finite.size:
        return value
    low, high = min(float(finite.min()), 0.0), max(float(finite.max()), 0.0)
    width = 2 * max(-low, high) if constant else max(high - low, _FIXED_RANGES.get(operator, 0.0))
    quantum = OFF_BY * width / LEVELS
    if not quantum or not np.isfinite(quantum):
        return value
    shift = rng.random()
    return np.asarray((np.round(value / quantum + shift) - shift) * quantum)
