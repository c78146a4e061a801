"""The memory layout of a torch program's example inputs. It is part of the program: the inputs of every run have the
same layout.

A tensor may be transposed, strided, expanded (one number in many places), overlapping, or share its memory with
another input. Such inputs are rebuilt as views of a storage of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from driftline.core.structure import flatten
from driftline.core.tensors import Array, Arrays
from driftline.programs.live import LiveProgram


@dataclass(frozen=True)
class _Place:
    """The place of one tensor in its storage, counted in elements."""

    storage: int
    length: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def addresses(self) -> Array:
        """Return the index into the storage for each element."""
        at = np.full(self.shape, self.offset, dtype=np.int64)
        for axis, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            steps = np.arange(size, dtype=np.int64) * stride
            at += steps.reshape([-1 if a == axis else 1 for a in range(len(self.shape))])
        return at


class InputLayout:
    """The layout of the inputs that are not simply contiguous tensors of their own."""

    def __init__(self, places: Mapping[str, _Place]) -> None:
        self._places = dict(places)

    @staticmethod
    def of(live: LiveProgram) -> InputLayout:
        tensors = {name: leaf for name, leaf in flatten(live.arguments, "input").items() if _is_torch(leaf)}
        shared: dict[int, list[str]] = defaultdict(list)
        for name, tensor in tensors.items():
            if tensor.numel():
                shared[tensor.untyped_storage().data_ptr()].append(name)
        places: dict[str, _Place] = {}
        for storage, names in shared.items():
            members = [tensors[name] for name in names]
            if len(names) == 1 and members[0].is_contiguous():
                continue
            if len({tensor.dtype for tensor in members}) > 1:
                continue  # one memory read as two types: left alone
            for name, tensor in zip(names, members, strict=True):
                length = tensor.untyped_storage().nbytes() // tensor.element_size()
                place = _Place(storage, length, tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
                places[name] = place
        return InputLayout(places)

    def to_json(self) -> dict[str, Any]:
        return {name: asdict(place) for name, place in self._places.items()}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> InputLayout:
        return InputLayout(
            {
                name: _Place(**{**place, "shape": tuple(place["shape"]), "strides": tuple(place["strides"])})
                for name, place in value.items()
            }
        )

    def __bool__(self) -> bool:
        return bool(self._places)

    def settled(self, arrays: Arrays) -> Arrays:
        """Return the arrays after writing them to memory: where elements overlap, the last one written counts."""
        storages = self._storages(arrays)
        return {
            name: storages[self._places[name].storage][self._places[name].addresses()]
            if self._fits(name, array)
            else array
            for name, array in arrays.items()
        }

    def tensors(self, arrays: Arrays, make: Any) -> dict[str, Any]:
        """Return the tensors of inputs with a special layout; `make` converts an array to a contiguous tensor."""
        storages = {key: make(storage) for key, storage in self._storages(arrays).items()}
        return {
            name: storages[place.storage].as_strided(place.shape, place.strides, place.offset)
            for name, place in self._places.items()
            if name in arrays and self._fits(name, arrays[name])
        }

    def _storages(self, arrays: Arrays) -> dict[int, Array]:
        storages: dict[int, Array] = {}
        for name, array in arrays.items():
            if self._fits(name, array):
                place = self._places[name]
                storage = storages.setdefault(place.storage, np.zeros(place.length, dtype=array.dtype))
                storage[place.addresses().ravel()] = array.ravel()
        return storages

    def _fits(self, name: str, array: Array) -> bool:
        return name in self._places and self._places[name].shape == array.shape


def _is_torch(value: Any) -> bool:
    return hasattr(value, "untyped_storage") and hasattr(value, "stride")
