"""Marks in place of NaN and infinities: running an operator on the marks shows which results the NaN and Inf reach."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from driftline.core.tensors import Array

NEAR = 2  # distance in elements of neighbours whose interpolation weight may be zero


def marks_of(source: Array, axes: Iterable[int] = ()) -> Array:
    """Return distinct positive numbers where `source` is not finite, and within `NEAR` elements along `axes`; zero
    elsewhere. The numbers differ so that weights of opposite sign do not cancel."""
    odd = ~np.isfinite(source)
    for axis in axes:
        spread = odd.copy()
        for step in range(1, NEAR + 1):
            before, after = [slice(None)] * odd.ndim, [slice(None)] * odd.ndim
            before[axis], after[axis] = slice(None, -step), slice(step, None)
            if step < odd.shape[axis]:
                spread[tuple(after)] |= odd[tuple(before)]
                spread[tuple(before)] |= odd[tuple(after)]
        odd = spread
    return np.where(odd, 1.0 + np.random.default_rng(0).random(odd.shape), 0.0)
