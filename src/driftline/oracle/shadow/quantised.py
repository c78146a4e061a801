"""Re-quantisation: values that a target may quantise one or two steps off.

A kernel that computes on quantised numbers scales its sums with an integer or a float32 multiplier, and so may return a
neighbour of the correct number. The effect on the outputs is found by executing the graph with every quantised value
moved by that many quanta: all up, all down, and then each at random. Results between the lowest and the highest are
legal; nothing else is widened.
"""

from __future__ import annotations

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.shadow.decisions import EXTREMES, SHUFFLES

REQUANTISED_SHUFFLES = 24  # many independent steps need more draws than a few ties


def pushed_runs(arithmetic: Arithmetic) -> range:
    """Return the numbers of the runs that push decisions and quantised values."""
    return range(EXTREMES + (REQUANTISED_SHUFFLES if arithmetic.requantise else SHUFFLES))


def moved_by_quanta(result: Array, quanta: int, run: int, random: np.random.Generator) -> Array:
    """Return a quantised result moved by `quanta`, up or down depending on the run; integers stay within their type."""
    if not quanta or run == EXTREMES - 1:
        return result
    if run < EXTREMES:
        signs: Array | int = 1 if run % 2 == 0 else -1
    else:
        signs = np.asarray(random.integers(0, 2, result.shape) * 2 - 1)
    if result.dtype.kind not in "iu":
        return np.asarray(result + quanta * signs)
    limits = np.iinfo(result.dtype)
    return np.clip(result.astype(np.int64) + quanta * signs, limits.min, limits.max).astype(result.dtype)
