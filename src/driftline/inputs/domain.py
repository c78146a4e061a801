"""What a planned tensor may hold: `InputPlan.values` as ranges of integers and conditions on floats.

Every strategy draws freely and then applies these functions, so that the rules are implemented in one place.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from driftline.core.tensors import Array, is_float, numpy_dtype
from driftline.inputs.plan import InputPlan
from driftline.inputs.structured import is_structured

OPEN_SIZE = 2  # the size given to a dimension that a plan leaves open
_UNKNOWN = (0, 7)  # the range of "like" when there is no example


def shape_of(plan: InputPlan) -> tuple[int, ...]:
    return plan.spec.sized(OPEN_SIZE) if plan.example is None else plan.example.shape


def fixed(plan: InputPlan) -> Array | None:
    """Return the example if the input must equal it: its rule is `exact`, or it is a float input "like" an example,
    such as a matrix that must be positive definite. Otherwise None."""
    if plan.example is None or not (plan.values == "exact" or (plan.values == "like" and _inexact(plan.spec.dtype))):
        return None
    return plan.example.astype(numpy_dtype(plan.spec.dtype))


def keeps_its_form(plan: InputPlan) -> bool:
    """True if no element of the input may be replaced on its own."""
    return fixed(plan) is not None or plan.values.startswith("distinct:") or is_structured(plan)


def part_of(dtype: str) -> str:
    """Return the dtype of the real and imaginary parts of a complex dtype; other dtypes are returned unchanged."""
    return {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)


def integer_range(plan: InputPlan) -> tuple[int, int] | None:
    """Return the smallest and the largest allowed integer. None means all integers of the dtype, except zero if the
    rule is `nonzero`."""
    rule, _, bound = plan.values.partition(":")
    low, high = _limits(plan.spec.dtype)
    if rule == "range":
        first, last = bound.split(":")
        wanted = (int(first), int(last))
    elif bound:
        count = int(bound)
        wanted = (-count if rule == "wrapped" else 0, count - 1)
    elif rule in ("like", "exact"):
        example = plan.example
        wanted = (int(example.min()), int(example.max())) if example is not None and example.size else _UNKNOWN
    elif rule == "positive":
        wanted = (1, high)
    elif rule == "unit":
        wanted = (0, 1)
    elif plan.spec.dtype == "bool":
        wanted = (1 if rule == "nonzero" else 0, 1)
    else:
        return None
    least = min(max(wanted[0], low), high)
    return least, max(min(wanted[1], high), least)


def folded(values: Array, rule: str) -> Array:
    """Move finite float64 numbers into the range of the rule while keeping them varied."""
    if rule == "positive":
        return np.abs(values)
    if rule == "unit":
        size = np.abs(values)
        return np.where(size > 1, 1 / np.maximum(size, 1), size)
    return values


def repaired(array: Array, rule: str) -> Array:
    """Replace numbers that no longer satisfy the rule after rounding with one, which every rule allows."""
    if rule in ("any", "like", "exact") or not array.size:
        return array
    return np.where(allowed(array, rule), array, array.dtype.type(1))


def allowed(array: Array, rule: str) -> Array:
    """Return a mask of the numbers that satisfy the rule. Infinity is positive; NaN is neither positive nor in the unit
    interval."""
    with np.errstate(invalid="ignore"):  # the small floats warn when NaN is compared
        if rule == "positive":
            return array > 0
        if rule == "unit":
            return (array >= 0) & (array <= 1)
        if rule == "nonzero":
            return array != 0
    return np.ones(array.shape, bool)


def mixed(array: Array, special: Array, rng: np.random.Generator) -> Array:
    """Replace some elements of the array, in place where possible, with numbers from `special`: one element, half of
    them, or a whole row."""
    if not special.size:
        return array
    flat = array.reshape(-1)
    at = _places(rng, array.shape, flat.size)
    flat[at] = special[rng.integers(0, special.size, at.size)]
    return flat.reshape(array.shape)


def _places(rng: np.random.Generator, shape: tuple[int, ...], size: int) -> Array:
    kind = rng.random()
    if kind < 0.4 or size < 2:
        return rng.integers(0, size, min(size, 1)) if size else np.zeros(0, np.int64)
    if kind < 0.75:
        return rng.permutation(size)[: (size + 1) // 2]
    width = shape[-1]
    return int(rng.integers(0, size // width)) * width + np.arange(width)


@lru_cache(None)
def _limits(dtype: str) -> tuple[int, int]:
    if dtype == "bool":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _inexact(dtype: str) -> bool:
    return is_float(dtype) or dtype.startswith("complex")
