"""Inputs of another size that a program may take too: one more row along the first dimension."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from driftline.core.tensors import Array, Arrays, is_float
from driftline.inputs.other import SMALLER, ascends


def one_more_row(arrays: Arrays) -> Iterator[tuple[Arrays, str]]:
    """Yield inputs with one more row, and words for the change: first with a row more in every input whose first
    dimension has the size of the batch, then in the first input alone. The batch is the first dimension of the first
    input that has dimensions. Whether a program takes them is for the program to say."""
    sized = [name for name, array in arrays.items() if array.ndim]
    if not sized or not (size := arrays[sized[0]].shape[0]):
        return
    words = f"batch {size + 1} instead of {size}"
    alike = [name for name in sized if arrays[name].shape[0] == size]
    yield _with_row(arrays, alike), words
    if len(alike) > 1:
        yield _with_row(arrays, alike[:1]), f"{words} in {alike[0]}"


def _with_row(arrays: Arrays, names: list[str]) -> Arrays:
    return {name: _grown(array) if name in names else array for name, array in arrays.items()}


def _grown(array: Array) -> Array:
    """The array with its last row once more: a valid index stays one. Floats are a little smaller, so that the new row
    is no tie of the old one, unless they are in order."""
    row = array[-1:]
    if is_float(array.dtype.name) and not (array.ndim == 1 and ascends(array)):
        with np.errstate(all="ignore"):
            row = (row * np.asarray(SMALLER, array.dtype)).astype(array.dtype)
    return np.concatenate((array, row))
