"""Files of named arrays, and names of dtypes.

Files use the safetensors layout (a JSON header and raw little-endian bytes): plain data that cannot run code, readable
by any safetensors library. It is implemented here, since the environment of a worker may hold nothing but the standard
library, numpy and a compiler. Complex arrays, which the layout does not support, are stored as pairs and named in the
metadata.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from driftline.core.errors import DamagedFile, NotNumbers, TooLarge
from driftline.core.handover import open_file, write_file

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Shape = tuple[int, ...]

_CODES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
_NAMES = {code: name for name, code in _CODES.items()}
_COMPLEX = {"complex64": "float32", "complex128": "float64"}
_EXTENDED = ("bfloat16", "float8_e4m3fn", "float8_e5m2")

FLOATS = ("float64", "float32", "float16", *_EXTENDED)
DTYPES = (*_CODES, *_COMPLEX)

ANY_SIZE = -1  # a dimension that the program leaves open
MOST_AXES = 64  # the limit of numpy arrays


@dataclass(frozen=True)
class TensorSpec:
    """The name, dtype and shape of a tensor that need not exist yet."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join('?' if s == ANY_SIZE else str(s) for s in self.shape)}]"

    def fits(self, shape: tuple[int, ...]) -> bool:
        return len(shape) == len(self.shape) and all(
            want in (have, ANY_SIZE) for have, want in zip(shape, self.shape, strict=True)
        )

    def sized(self, size: int) -> tuple[int, ...]:
        """Return the shape with every open dimension set to `size`."""
        return tuple(size if s == ANY_SIZE else s for s in self.shape)


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy dtype of a name; the small floats come from ml_dtypes, imported on first use."""
    if name in _EXTENDED:
        import ml_dtypes

        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return extended
    return np.dtype(name)


def copied(arrays: Arrays) -> Arrays:
    """Return copies of arrays that a compiler may write to, or may use again in its next call."""
    return {name: np.array(array) for name, array in arrays.items()}


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def bytes_of(specs: Iterable[TensorSpec]) -> int:
    """Return the bytes that tensors will take; open dimensions count as 1. Python's integers do not overflow."""
    return sum(math.prod(abs(size) for size in spec.shape) * numpy_dtype(spec.dtype).itemsize for spec in specs)


def spec_of(name: str, array: Array) -> TensorSpec:
    return TensorSpec(name, array.dtype.name, tuple(array.shape))


def save_tensors(path: Path | str, tensors: Mapping[str, Array]) -> None:
    """Write named arrays to a file, whole or not at all: a reader never sees half a file."""
    write_file(path, packed(tensors))


def packed(tensors: Mapping[str, Array]) -> list[bytes | memoryview]:
    """Return the file content for named arrays, in pieces."""
    header: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    blobs: list[memoryview] = []
    offset = 0
    for name, value in tensors.items():
        array = np.asarray(value)
        dtype = array.dtype.name
        if dtype in _COMPLEX:
            metadata[f"complex:{name}"] = dtype
            pairs = np.stack([array.real, array.imag], axis=-1)
            dtype = _COMPLEX[dtype]
            array = pairs.astype(dtype, copy=False)
        code = _CODES.get(dtype)
        if code is None:
            raise NotNumbers(
                f"The tensor {name!r} has the dtype {array.dtype}, which is not one of numbers that Driftline knows."
                f" Use one of {', '.join(DTYPES)}."
            )
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        blob = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data  # not a copy: arrays may be large
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [offset, offset + blob.nbytes]}
        blobs.append(blob)
        offset += blob.nbytes
    if metadata:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return [struct.pack("<Q", len(text)), text, *blobs]


def load_tensors(path: Path | str, *, most: int | None = None) -> Arrays:
    """Read a file of `save_tensors`; the arrays are writable and own their memory. Raises `DamagedFile` for other
    files, and `TooLarge` for more than `most` bytes."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise TooLarge(f"{Path(path).name} holds {in_bytes(size)} of tensors, and {in_bytes(most)} may be used")
        try:
            return read_tensors(file)
        except DamagedFile as error:
            raise DamagedFile(f"{path} is not a whole safetensors file: {error}.") from error


def read_tensors(file: BinaryIO, *, most: int | None = None) -> Arrays:
    """Read named arrays at the position of an open file. Allocates no more than the file holds."""
    begin = file.tell()
    room = file.seek(0, os.SEEK_END) - begin - 8
    file.seek(begin)
    try:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > room:
            raise ValueError("its header is longer than the file")
        if most is not None and length > most:
            raise ValueError("its header is longer than any of ours")
        header = json.loads(file.read(length))
        metadata = header.pop("__metadata__", {})
        arrays: Arrays = {}
        end = 0
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"][0]):
            if most is not None and sum(entry["data_offsets"][1:]) > most:
                raise TooLarge(f"a set of tensors is larger than {in_bytes(most)}")
            array, end = _read_one(file, entry, end, room - length)
            if f"complex:{name}" in metadata:
                # a view, not arithmetic: infinity times 1j is NaN
                array = array.view(metadata[f"complex:{name}"]).reshape(array.shape[:-1])
            arrays[name] = array
        return {name: arrays[name] for name in header}
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, struct.error, RecursionError) as error:
        raise DamagedFile(str(error) or type(error).__name__) from error


def _read_one(file: BinaryIO, entry: Mapping[str, Any], begin: int, room: int) -> tuple[Array, int]:
    start, end = entry["data_offsets"]
    dtype, shape = numpy_dtype(_NAMES[entry["dtype"]]), tuple(entry["shape"])
    if not all(type(size) is int and size >= 0 for size in (start, end, *shape)) or len(shape) > MOST_AXES:
        raise ValueError("a shape or an offset is not a size")
    if start != begin or end > room or end - start != math.prod(shape) * dtype.itemsize:
        raise ValueError("what it says of its tensors does not fit its length")
    return np.frombuffer(bytearray(file.read(end - start)), dtype=dtype).reshape(shape), end


def in_bytes(count: float) -> str:
    """Format a number of bytes: `3 MiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"
