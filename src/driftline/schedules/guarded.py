"""Arrays with guard bytes on both sides, which reveal writes outside; the guard bytes are NaN when read."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from driftline.core.tensors import Array

GUARD = 4096  # bytes on each side
ALIGNMENT = 64  # bytes, as TVM's generated code assumes
_MARKS = 7  # different patterns
LARGEST = 4


class GuardedArray:
    """An array inside a larger buffer of known bytes. Arrays with different marks have different guard bytes, since a
    NaN read beside one array and written beside another keeps its bits."""

    def __init__(self, shape: Sequence[int], dtype: str, mark: int = 0) -> None:
        kind = np.dtype(dtype)
        self._size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        room = np.empty(self._size + 2 * GUARD + ALIGNMENT, np.uint8)
        self._start = -room.ctypes.data % ALIGNMENT + GUARD
        self._room = room
        self._pattern = _pattern(room.size, mark % _MARKS)
        self.array: Array = room[self._start : self._start + self._size].view(kind).reshape(tuple(shape))
        self.reset()

    def reset(self) -> None:
        """Set every byte to the pattern, those of the array too, so that elements that are not written show."""
        self._room[:] = self._pattern

    def touched(self) -> str:
        """Say how many guard bytes before and after the array were changed; empty if none were."""
        wrong = self._room != self._pattern
        wrong[self._start : self._start + self._size] = False
        places = np.flatnonzero(wrong)
        if not places.size:
            return ""
        before, after = int((places < self._start).sum()), int((places >= self._start).sum())
        return " and ".join(
            f"{count} bytes {side} it" for count, side in ((before, "before"), (after, "after")) if count
        )


@cache  # few sizes, and numpy takes longer to make it than to compare with it
def _pattern(size: int, mark: int) -> Array:
    """Return guard bytes: NaN as float32, and as an integer a value that no function computes."""
    return np.resize(np.array([0xC5 + 8 * mark, 0xFF], np.uint8), size)


def made_inputs(
    shapes: Mapping[str, tuple[tuple[int, ...], str]], seed: int, below: Mapping[str, int], distinct: bool
) -> dict[str, Array]:
    """Return small integers for every input, from Python's generator: the same numbers in every process."""
    rng = random.Random(seed)
    made = {}
    for name, (shape, dtype) in shapes.items():
        count = int(np.prod(shape, dtype=np.int64))
        if name in below:
            numbers = [rng.randrange(below[name]) for _ in range(count)]
        elif distinct:
            numbers = rng.sample(range(count), count)
        else:
            numbers = [rng.randint(-LARGEST, LARGEST) for _ in range(count)]
        made[name] = np.array(numbers, dtype).reshape(shape)
    return made


def as_tensor(array: Any) -> Any:
    """Return the array as a TVM tensor, without a copy."""
    import tvm

    return tvm.runtime.from_dlpack(array)
