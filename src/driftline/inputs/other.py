"""Derive other inputs that a program probably accepts from given ones: the same numbers, reversed or made smaller.

This keeps domains that are not known: positive numbers, rows that sum to one, a positive definite matrix, sorted
limits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from driftline.core.tensors import Array, Arrays, TensorSpec, is_float
from driftline.inputs.make import random_inputs

SMALLER = 0.875  # exact in every float type, and it keeps signs, zeros, infinities and orders


def other_inputs(
    specs: Sequence[TensorSpec], arrays: Arrays, seed: int, parameters: Collection[str] = ()
) -> Arrays | None:
    """Return the arrays with floats reversed along all axes. Inputs named in `parameters` stay the same, and so do
    integers, which may be indices or lengths, unless no float can be changed. Returns None if nothing can be
    changed."""
    data = {name: array for name, array in arrays.items() if name not in parameters}
    made = {**arrays, **{name: _turned(array) for name, array in data.items() if _is_number(array)}}
    if _differ(made, arrays):
        return made
    drawn = random_inputs(specs, arrays, seed + 1).arrays
    made = {
        name: drawn[name] if name in drawn and drawn[name].shape == array.shape and not ascends(array) else array
        for name, array in data.items()
        if not _is_number(array)
    }
    made = {**arrays, **made}
    return made if _differ(made, arrays) else None


def _is_number(array: Array) -> bool:
    return is_float(array.dtype.name) or array.dtype.kind == "c"


def _turned(array: Array) -> Array:
    turned = np.ascontiguousarray(np.flip(array)).reshape(array.shape)
    if not ascends(array) and turned.tobytes() != array.tobytes():
        return turned
    with np.errstate(all="ignore"):
        return np.asarray((array * np.asarray(SMALLER, array.dtype)).astype(array.dtype)).reshape(array.shape)


def ascends(array: Array) -> bool:
    """True if the numbers are sorted (in either direction) along the last axis: they may be limits or offsets."""
    if not array.ndim or array.shape[-1] < 2 or array.dtype.kind == "c":
        return False
    with np.errstate(all="ignore"):
        return bool((array[..., 1:] >= array[..., :-1]).all() or (array[..., 1:] <= array[..., :-1]).all())


def _differ(made: Arrays, arrays: Arrays) -> bool:
    return any(made[name].tobytes() != array.tobytes() for name, array in arrays.items())
