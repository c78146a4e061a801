"""The strategy `random`: ordinary numbers from several distributions.

Normally distributed numbers alone meet no ties, no cancellation and no exact results, so each tensor takes one of
several distributions. The other strategies use the same numbers as their background.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from driftline.core.tensors import Array, Shape, is_float, numpy_dtype
from driftline.inputs.domain import fixed, folded, integer_range, part_of, repaired, shape_of
from driftline.inputs.plan import InputPlan
from driftline.inputs.strategies import InputStrategy
from driftline.inputs.structured import is_structured, structured

Distribution = Callable[[np.random.Generator, Shape, str], Array]


class RandomValues(InputStrategy):
    """Fills every input with ordinary numbers."""

    name = "random"

    def fill(self, plan: InputPlan, rng: np.random.Generator, edges: tuple[float, ...]) -> Array:
        return ordinary(plan, rng)


def ordinary(plan: InputPlan, rng: np.random.Generator) -> Array:
    """Draw a tensor of ordinary numbers that follows its plan."""
    dtype = plan.spec.dtype
    if (example := fixed(plan)) is not None:
        return example
    if is_structured(plan):
        return structured(plan, rng, shape_of(plan))
    if is_float(dtype):
        return _floats(rng, shape_of(plan), dtype, plan.values)
    if dtype.startswith("complex"):
        parts = [_floats(rng, shape_of(plan), part_of(dtype), plan.values) for _ in range(2)]
        return complex_of(parts[0], parts[1] * (plan.values in ("any", "nonzero")), dtype)
    if plan.values.startswith("distinct:") and plan.spec.shape:
        return distinct(rng, shape_of(plan), int(plan.values[9:])).astype(dtype)
    if (limits := integer_range(plan)) is not None:
        return _within(rng, shape_of(plan), dtype, *limits)
    return repaired(_wild(rng, shape_of(plan), dtype), plan.values)


def complex_of(real: Array, imaginary: Array, dtype: str) -> Array:
    """Return the complex array with these parts. They are set directly, since in arithmetic infinity times 1j is
    NaN."""
    made = np.empty(real.shape, dtype)
    made.real, made.imag = real, imaginary
    return made


def distinct(rng: np.random.Generator, shape: Shape, count: int) -> Array:
    """Return permutations of `range(count)` along the last axis, cut to its length."""
    rows = np.resize(np.arange(max(count, shape[-1])) % max(count, 1), (*shape[:-1], max(count, shape[-1])))
    return rng.permuted(rows, axis=-1)[..., : shape[-1]]


class FloatFormat(NamedTuple):
    """Properties of a float dtype, cached because looking them up each time is slow."""

    kind: np.dtype[Any]
    bits: Any  # the integer type of the same width
    largest: float
    low: float  # exponents of the smallest and the largest number
    high: float


@lru_cache(None)
def float_format(dtype: str) -> FloatFormat:
    kind = numpy_dtype(dtype)
    info = ml_dtypes.finfo(kind)
    largest, least = float(info.max), float(info.smallest_subnormal)
    return FloatFormat(kind, np.dtype(f"int{8 * kind.itemsize}").type, largest, math.log2(least), math.log2(largest))


def _floats(rng: np.random.Generator, shape: Shape, dtype: str, rule: str) -> Array:
    draw = _DISTRIBUTIONS[int(rng.random() * len(_DISTRIBUTIONS))]
    if draw is _nearly_equal:
        return repaired(_nearly_equal(rng, shape, dtype, rule), rule)
    return repaired(_rounded(folded(draw(rng, shape, dtype), rule), dtype), rule)


def _rounded(values: Array, dtype: str) -> Array:
    form = float_format(dtype)
    if form.high < 10:  # only the smallest formats can overflow here
        values = np.clip(values, -form.largest, form.largest)
    return np.asarray(values).astype(form.kind)


def _normal(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    return rng.standard_normal(shape)


def _uniform(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    return rng.uniform(-1, 1, shape)


def _small_positive(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    return rng.uniform(0.1, 0.9, shape)


def _wide(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    """Draw magnitudes over a wide range, such that products of two numbers do not overflow or vanish."""
    form = float_format(dtype)
    signs = rng.integers(0, 2, shape) * 2.0 - 1
    return signs * np.exp2(rng.uniform(form.low / 2, form.high / 2, shape))


def _whole(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    """Draw small whole numbers, which give many ties and results without rounding."""
    return rng.integers(-4, 5, shape).astype(np.float64)


def _constant(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    return np.full(shape, rng.standard_normal())


def _sparse(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    return rng.standard_normal(shape) * (rng.random(shape) < 0.2)


def _offset(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    """Draw numbers around 1000, so that differences and variances cancel."""
    return 1e3 + rng.standard_normal(shape)


def _nearly_equal(rng: np.random.Generator, shape: Shape, dtype: str, rule: str = "any") -> Array:
    """Draw numbers within a few ULPs of one random number."""
    form = float_format(dtype)
    base = np.asarray(folded(np.asarray(rng.uniform(0.25, 3.5) * (1 - 2 * rng.integers(0, 2))), rule)).astype(form.kind)
    return (base.view(form.bits) + rng.integers(-3, 4, shape, dtype=form.bits)).astype(form.bits).view(form.kind)


_DISTRIBUTIONS: tuple[Distribution, ...] = (
    _normal, _normal, _uniform, _small_positive, _wide, _whole, _nearly_equal, _constant, _sparse, _offset,
)  # fmt: skip


def _within(rng: np.random.Generator, shape: Shape, dtype: str, low: int, high: int) -> Array:
    """Draw integers from a range: spread over it, or all the same."""
    kind: Any = np.dtype(dtype).type
    if rng.random() < 0.1:
        return np.full(shape, rng.integers(low, high, dtype=kind, endpoint=True), dtype)
    return np.asarray(rng.integers(low, high, shape, dtype=kind, endpoint=True), dtype)


_SPANS = (1, 5, 5, 5, 100, 0)  # 0: all that the dtype has


def _wild(rng: np.random.Generator, shape: Shape, dtype: str) -> Array:
    """Draw integers without a rule: from a small, a medium or the full range of the dtype."""
    limits = np.iinfo(dtype)
    span = _SPANS[int(rng.random() * len(_SPANS))]
    low, high = (limits.min, limits.max) if not span else (max(limits.min, -span), min(limits.max, span))
    return _within(rng, shape, dtype, int(low), int(high))
