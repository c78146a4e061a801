"""Compare NaN and infinities element by element, and decide which differences from the reference are legal."""

from __future__ import annotations

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.arithmetic import Arithmetic


def compare_classes(
    got: Array, native: Array, reference: Array, samples: Array, arithmetic: Arithmetic
) -> tuple[Array, Array]:
    """Return two masks: elements whose class (finite, NaN, Inf or -Inf) illegally differs from the reference, and all
    elements whose class differs. A difference is legal if the program's own run or a legal run shows the same class."""
    dtype = got.dtype
    unit = arithmetic.unit(dtype.name)
    value, own = got.astype(np.float64), native.astype(np.float64)
    perfect = reference.astype(dtype).astype(np.float64)
    if bool(np.isfinite(value).all() and np.isfinite(perfect).all()):  # the usual case: nothing to compare
        return np.zeros(value.shape, dtype=bool), np.zeros(value.shape, dtype=bool)
    mine, right = class_of(value), class_of(perfect)
    legal = (mine == right) | (mine == class_of(own))
    drawn = samples.astype(dtype).astype(np.float64)
    legal |= (class_of(drawn) == mine).any(axis=0)
    # A divisor that rounds to zero has no definite sign, so the resulting infinity has none either.
    by_rounding = np.isfinite(perfect) & (np.isinf(own) | np.isinf(drawn).any(axis=0))
    legal |= np.isinf(value) & by_rounding
    legal |= _on_an_edge([right, class_of(own), *class_of(drawn)])
    slack = 4 * unit  # at the very end of the range, rounding decides between finite and Inf
    largest = arithmetic.largest(dtype.name)
    at_the_edge = (np.abs(reference) > largest * (1 - slack)) & (np.abs(reference) < largest * (1 + slack))
    legal |= at_the_edge & ~np.isnan(value)
    # Terms near the end of the range: whether a partial sum overflows depends on their order. The size of the terms is
    # estimated from the noise, which is their size times the rounding unit. A run of the program that overflowed counts
    # too.
    moved = np.abs(samples - reference).max(axis=0, initial=0.0)
    # sums have a wider range, so the rounding of the result itself does not count
    if arithmetic.largest_sum(dtype.name) > largest:
        moved = np.maximum(moved - 2 * unit * np.abs(reference), 0.0)
    terms = moved / unit
    overflows = np.isfinite(reference) & (np.abs(reference) + 4 * terms > largest)
    overflows |= np.isfinite(perfect) & ~np.isfinite(own)
    # Where the result itself overflows in every run, no order of terms gives the opposite infinity.
    turned = np.isinf(value) & np.isinf(perfect) & (value == -perfect) & (class_of(drawn) == right).all(axis=0)
    legal |= overflows & ~np.isfinite(value) & ~turned
    return ~legal, mine != right


def _on_an_edge(classes: list[Array]) -> Array:
    """Return a mask of the elements where legal runs disagree about NaN or about the sign of infinity. There the
    argument of a root, a logarithm or a quotient lies on the edge of its domain, where a third result is possible."""
    seen = [np.any([drawn == one for drawn in classes], axis=0) for one in range(4)]
    several = np.sum(seen, axis=0) > 1
    return np.asarray((seen[1] & several) | (seen[2] & seen[3]))


def class_of(values: Array) -> Array:
    """Classify each element: 0 finite, 1 NaN, 2 +Inf, 3 -Inf."""
    return np.where(np.isnan(values), 1, np.where(np.isposinf(values), 2, np.where(np.isneginf(values), 3, 0)))
