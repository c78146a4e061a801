"""Store the arrays of leaves in a folder, one file for each, named by content and shared by the parent and its workers.

A value has one array for each input sample of the case.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from driftline.core.tensors import Array, load_tensors, save_tensors
from driftline.programs.literals import READ_AT_ONCE
from driftline.programs.number_formulas import formula_of

_FORMULA = 8  # the roughness of an array that a formula gives

Numbered = dict[int, Array]  # arrays by the number of their value


class Values:
    """A folder of arrays. Equal arrays always have the same name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def save(self, arrays: Sequence[Array]) -> str:
        """Store the arrays of a value, one for each sample, and return their name."""
        digest = hashlib.blake2b(digest_size=12)
        for array in arrays:
            digest.update(f"{array.dtype.name} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        name = digest.hexdigest()
        path = self._folder / name
        if not path.exists():
            save_tensors(path, {str(index): array for index, array in enumerate(arrays)})
        return name

    def load(self, name: str) -> list[Array]:
        return list(load_tensors(self._folder / name).values())


def roughness(arrays: Sequence[Array]) -> int:
    """Measure how far numbers are from round ones: 0 for 0 and 1, little for small integers, more for each digit.

    For large arrays only some elements are counted, since nobody reads them one by one. An array that a short formula
    gives has a fixed value.
    """
    total = 0
    for array in arrays:
        if array.size > READ_AT_ONCE and array.any() and formula_of(array):
            total += _FORMULA
            continue
        for value in np.asarray(array).ravel()[:64].tolist():
            total += _digits(value)
    return total


def oddness(array: Array) -> Array:
    """Measure how unusual each element is: values that are not finite most, then those much larger or smaller than the
    others.

    If a single element causes a failure, it is probably the most unusual one; if any element does, that one does too.
    """
    with np.errstate(all="ignore"):
        size = np.log2(np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)))
    usual = np.isfinite(size)
    middle = np.median(size[usual]) if usual.any() else 0.0
    return np.where(usual, np.abs(size - middle), np.where(array == 0, 0.0, np.inf))


def _digits(value: object) -> int:
    if isinstance(value, bool) or value in (0, 1):
        return 0
    if isinstance(value, int):
        return len(str(abs(value)).rstrip("0")) + (abs(value) > 1000)
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return len(text.replace("-", "").replace(".", "").strip("0")) + ("." in text) or 1
