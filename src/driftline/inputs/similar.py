"""Draw fresh inputs that resemble an example: its scale, signs, range, zeros and integers.

Some drifts depend on the size or the sign of the numbers; they show on such inputs and not on normally distributed
ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftline.core.case import Inputs
from driftline.core.tensors import Array, Arrays, TensorSpec, is_float
from driftline.inputs.make import random_inputs
from driftline.inputs.other import ascends

JITTER = 0.125  # largest relative change of a number drawn from the example
FEW = 8  # numbers that are too few to draw from: each is changed by itself


def similar_inputs(specs: Sequence[TensorSpec], example: Arrays, seed: int) -> Inputs:
    """Return floats drawn from those of the example with small random changes. Integers come from `random_inputs`,
    or from the values of the example if those are plain numbers. Without an example, returns normally distributed
    numbers."""
    drawn = random_inputs(specs, example, seed)
    rng = np.random.default_rng((seed, 1))
    arrays = {name: _similar(array, example.get(name), rng) for name, array in drawn.arrays.items()}
    return Inputs(arrays, f"like the example, seed={seed}" if example else drawn.origin)


def _similar(drawn: Array, example: Array | None, rng: np.random.Generator) -> Array:
    if example is None or not example.size or example.shape != drawn.shape or example.dtype.kind == "c":
        return drawn
    if not is_float(example.dtype.name):
        plain = example.dtype.kind in "iu" and _is_plain(example)
        return rng.choice(example.reshape(-1), example.shape) if plain else drawn
    with np.errstate(all="ignore"):
        values = example.astype(np.float64)
        finite = np.isfinite(values)
        known = values[finite]
        if not known.size:
            return example.copy()
        chosen = known if known.size <= FEW else rng.choice(known, known.size)
        moved = chosen * (1.0 + rng.uniform(-JITTER, JITTER, known.shape))
        values[finite] = np.clip(moved, known.min(), known.max())
        return np.asarray((_sorted_like(values, example)).astype(example.dtype))


def _is_plain(example: Array) -> bool:
    """True if the integers are neither all zeros and ones nor sorted, as masks, positions and offsets would be."""
    return bool(example.ndim and not ascends(example) and ((example != 0) & (example != 1)).any())


def _sorted_like(values: Array, example: Array) -> Array:
    """Sort the values if the example is sorted: its numbers may be limits."""
    if not ascends(example):
        return values
    ordered = np.sort(values, axis=-1)
    return ordered if (example[..., 1:] >= example[..., :-1]).all() else np.flip(ordered, axis=-1)
