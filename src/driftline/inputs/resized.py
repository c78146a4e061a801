"""Make inputs of another size that a program may also accept: one more row along the first dimension."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from driftline.core.tensors import Array, Arrays, is_float
from driftline.inputs.other import SMALLER, ascends


def one_more_row(arrays: Arrays) -> Iterator[tuple[Arrays, str]]:
    """Yield inputs with one more row, and a description of the change: first with a row more in every input whose first
    dimension has the batch size, then in the first input alone. The batch size is the first dimension of the first
    input that has dimensions. The program may still reject the inputs."""
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
    """Return the array with its last row repeated, which keeps indices valid. Unsorted floats are scaled down a little,
    so that the new row does not equal the old one."""
    row = array[-1:]
    if is_float(array.dtype.name) and not (array.ndim == 1 and ascends(array)):
        with np.errstate(all="ignore"):
            row = (row * np.asarray(SMALLER, array.dtype)).astype(array.dtype)
    return np.concatenate((array, row))
