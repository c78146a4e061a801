"""Tensors whose rows follow a structure: masks, flags, positions."""

from __future__ import annotations

import numpy as np

from driftline.core.tensors import Array, numpy_dtype
from driftline.inputs.plan import InputPlan

STRUCTURED = ("mask", "padding", "flags", "positions")


def is_structured(plan: InputPlan) -> bool:
    """True if the rule of the plan is about whole rows."""
    return plan.values.partition(":")[0] in STRUCTURED


def structured(plan: InputPlan, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw a tensor whose rows follow the rule of the plan, one of `STRUCTURED`."""
    rule, _, start = plan.values.partition(":")
    if rule == "positions":
        width = shape[-1] if shape else 1
        values = np.broadcast_to((np.arange(width) + int(start or 0)).reshape(shape[-1:]), shape)
    elif rule == "flags":
        values = _flags(rng, shape)
    else:
        values = _kept(rng, shape)
        if rule == "padding":
            values = ~values
    return np.array(values, numpy_dtype(plan.spec.dtype))


def _kept(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw rows of ones that may end in padding (zeros). The first row has no padding, the second has some, and no row
    is all padding, since nothing would be left to compare."""
    if not shape or not shape[-1]:
        return np.ones(shape, bool)
    width, rows = shape[-1], int(np.prod(shape[:-1], dtype=np.int64))
    lengths = rng.integers((width + 1) // 2, width, rows, endpoint=True)
    lengths[:1] = width
    lengths[1:2] = max(1, width - max(1, width // 4))
    return (np.arange(width) < lengths[:, None]).reshape(shape)


def _flags(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw zeros and ones in any order, with a one in every row."""
    values = rng.integers(0, 2, shape).astype(bool)
    if shape and shape[-1]:
        flat = values.reshape(-1, shape[-1])
        flat[np.arange(len(flat)), rng.integers(0, shape[-1], len(flat))] = True
    return values
