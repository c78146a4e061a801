"""The rounding error of adding numbers one after the other, which is a legal order for every sum.

Terms with few distinct values round the same way again and again, so the errors of all sums may have the same sign. The
size of these errors depends on the last digits of the terms and follows no formula, so the sums are computed in that
order here. For float64 no error is computed, because the terms are not known more accurately than float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from driftline.core.tensors import Array, numpy_dtype

BLOCK = 1 << 15  # elements that are added up at a time
MOST_PRODUCTS = 1 << 24  # larger matrix products would take longer than the rest of a shadow run


def sum_error(terms: Array, axes: Sequence[int], dtype: str | None) -> Array | None:
    """Return the error of adding `terms` one after the other along `axes` in arithmetic of `dtype`; the summed axes are
    kept with length 1. Returns `None` for float64, for terms that are not real floats, and for a scalar."""
    if dtype in (None, "float64") or terms.dtype.kind != "f" or not terms.size or not terms.ndim:
        return None
    kind = numpy_dtype(dtype or "")
    over = sorted(axis % terms.ndim for axis in axes)
    rows = np.moveaxis(terms, over, range(-len(over), 0)).reshape(-1, math.prod(terms.shape[a] for a in over))
    error = np.empty(len(rows))
    step = max(1, BLOCK // max(rows.shape[1], 1))
    with np.errstate(all="ignore"):
        for start in range(0, len(rows), step):
            part = rows[start : start + step].astype(kind)
            exact = part.astype(np.float64).sum(axis=1)
            error[start : start + step] = np.add.accumulate(part, axis=1)[:, -1].astype(np.float64) - exact
    return _finite(error).reshape([1 if axis in over else size for axis, size in enumerate(terms.shape)])


def product_error(left: Array, right: Array, dtype: str | None) -> Array | None:
    """Return the error of a matrix product (or a stack of them) whose products are added one after the other in
    `dtype`. Returns `None` for float64, for operands that are not real floats of at least two dimensions, and for large
    products."""
    if (
        dtype in (None, "float64")
        or left.dtype.kind != "f"
        or right.dtype.kind != "f"
        or min(left.ndim, right.ndim) < 2
    ):
        return None
    if not left.size or not right.size or left.size * right.shape[-1] > MOST_PRODUCTS:
        return None
    kind = numpy_dtype(dtype or "")
    with np.errstate(all="ignore"):
        factors, others = left.astype(kind), right.astype(kind)
        exact = factors.astype(np.float64) @ others.astype(np.float64)
        total = np.zeros(exact.shape, kind)
        for place in range(left.shape[-1]):
            total += factors[..., :, place, None] * others[..., None, place, :]
        return _finite(total.astype(np.float64) - exact)


def _finite(error: Array) -> Array:
    return np.where(np.isfinite(error), error, 0.0)
