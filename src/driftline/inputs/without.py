"""Inputs without one class of numbers, to find out whether a failure needs them. Ordinary numbers replace them."""

from __future__ import annotations

import numpy as np

from driftline.core.evidence import InputClass
from driftline.core.tensors import Array, Arrays, is_float

LARGE = 1e4  # beyond this an ordinary number is not


def without(arrays: Arrays, sort: InputClass) -> Arrays | None:
    """Return the inputs with all numbers of the class `sort` replaced by others; None if there are none."""
    found = False
    changed: Arrays = {}
    for name, array in arrays.items():
        if array.dtype.kind in "bc" or not array.size:
            changed[name] = array
            continue
        with np.errstate(all="ignore"):
            values = array.astype(np.float64)
            mask = (
                _mask(values, array.dtype, sort)
                if is_float(array.dtype.name)
                else _integer_mask(values, array.dtype, sort)
            )
        if not mask.any():
            changed[name] = array
            continue
        found = True
        with np.errstate(invalid="ignore"):  # a replaced number may not fit the dtype
            changed[name] = np.where(mask, _ordinary(array, sort), array).astype(array.dtype)
    return changed if found else None


def _mask(values: Array, dtype: np.dtype, sort: InputClass) -> Array:
    import ml_dtypes

    if sort is InputClass.NAN:
        return np.isnan(values)
    if sort is InputClass.INFINITY:
        return np.isinf(values)
    if sort is InputClass.SUBNORMAL:
        return (values != 0) & (np.abs(values) < float(ml_dtypes.finfo(dtype).smallest_normal))
    if sort is InputClass.ZERO:
        return values == 0
    if sort is InputClass.NEGATIVE:
        return np.isfinite(values) & (values < 0)
    if sort is InputClass.LARGE:
        return np.isfinite(values) & (np.abs(values) > LARGE)
    flat = values.reshape(-1)
    _, first = np.unique(flat, return_index=True)
    mask = np.ones(flat.size, bool)
    mask[first] = False
    return (mask & np.isfinite(flat)).reshape(values.shape)


def _integer_mask(values: Array, dtype: np.dtype, sort: InputClass) -> Array:
    """Return the mask of integers that belong to the class: zero, negative, large or repeated."""
    if sort in (InputClass.NAN, InputClass.INFINITY, InputClass.SUBNORMAL):
        return np.zeros(values.shape, bool)
    mask = _mask(values, np.dtype(np.float64), sort)
    # the upper half of an unsigned type is negative where its bits are taken for a signed one
    return mask | (values > np.iinfo(dtype).max // 2) if sort is InputClass.LARGE and dtype.kind == "u" else mask


def _ordinary(array: Array, sort: InputClass) -> Array:
    """Return different floats between one half and two, or integers from 1; for negative numbers, their absolutes."""
    if sort is InputClass.NEGATIVE:
        magnitude = np.abs(array)
        return np.where(magnitude < 0, np.ones((), array.dtype), magnitude)  # of the lowest integer there is none
    if not is_float(array.dtype.name):
        return np.arange(1, array.size + 1).reshape(array.shape)
    return (0.5 + 1.5 * np.arange(1, array.size + 1) / (array.size + 1)).reshape(array.shape)
