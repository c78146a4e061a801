"""Stores many small sets of tensors in one file, since creating a file takes a disk longer than running a small
program.

A place is the path of the file with a position in it, `path#position`; the path alone is its beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from driftline.core.handover import open_file
from driftline.core.tensors import Arrays, packed, read_tensors, save_tensors

MOST = 8 << 30  # bytes of one set of tensors: the default memory of a worker


class Shelf:
    """A file to which sets of tensors are appended. They survive if the process is killed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open(path, "ab")  # noqa: SIM115 - closed in `__exit__`

    def __enter__(self) -> Shelf:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def put(self, arrays: Arrays) -> str:
        """Append a set of tensors; return its place."""
        position = self._file.tell()
        self._file.writelines(packed(arrays))
        self._file.flush()
        return f"{self._path}#{position}"

    def put_samples(self, samples: Sequence[Arrays]) -> str:
        """Append input samples; return their place."""
        return self.put(_as_one(samples))


def load_from(place: str) -> Arrays:
    """Read the set of tensors at a place."""
    path, _, position = place.rpartition("#")
    with open_file(path if position.isdigit() else place) as file:
        file.seek(int(position) if position.isdigit() else 0)
        return read_tensors(file, most=MOST)


def save_samples(path: Path, samples: Sequence[Arrays]) -> None:
    """Save input samples to a file of their own."""
    save_tensors(path, _as_one(samples))


def load_samples(place: str) -> list[Arrays]:
    """Read the input samples at a place."""
    samples: dict[int, Arrays] = {}
    for name, array in load_from(place).items():
        number, _, inner = name.partition("/")
        sample = samples.setdefault(int(number), {})
        if inner:
            sample[inner] = array
    return [samples[number] for number in sorted(samples)]


def _as_one(samples: Sequence[Arrays]) -> Arrays:
    """Return input samples as one set, in which `2/x` is the input x of the third sample."""
    named = {f"{n}/{name}": array for n, arrays in enumerate(samples) for name, array in arrays.items()}
    empty = {f"{n}/": np.zeros(0, np.int8) for n, arrays in enumerate(samples) if not arrays}  # a sample without inputs
    return {**named, **empty}
