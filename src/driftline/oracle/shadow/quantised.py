"""Re-quantisation: values that a target may quantise one or two steps off.

A kernel that computes on quantised numbers scales its sums with an integer or a float32 multiplier, and so may land on
the neighbour of the number that the program means. What that does to the outputs is found by playing the graph with
every quantised value moved by that many quanta: all up, all down, and then each at random. The band between the lowest
and the highest result is what is legal; nothing else is widened.
"""

from __future__ import annotations

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.shadow.decisions import EXTREMES, SHUFFLES

REQUANTISED_SHUFFLES = 24  # a band over many independent steps needs more draws than one over a few ties


def pushed_runs(arithmetic: Arithmetic) -> range:
    """How many runs show what may legally be pushed."""
    return range(EXTREMES + (REQUANTISED_SHUFFLES if arithmetic.requantise else SHUFFLES))


def moved_by_quanta(result: Array, quanta: int, run: int, random: np.random.Generator) -> Array:
    """A quantised result as another legal implementation may have it; integers stay within their type."""
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
