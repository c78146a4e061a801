"""Tensors at rest: dtype names, and files that hold named arrays.

Files use the safetensors layout (a JSON header and raw little-endian bytes): plain data that cannot run code, readable
by any safetensors library. It is written here by hand, in few lines, because a worker may live in an environment that
has nothing but the standard library, numpy and a compiler. Complex arrays, which the layout does not know, are stored
as pairs and named in the metadata.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

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


@dataclass(frozen=True)
class TensorSpec:
    """What is known of a tensor before it exists."""

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
        """The shape with every open dimension set to `size`."""
        return tuple(size if s == ANY_SIZE else s for s in self.shape)


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of that name; the small floats come from ml_dtypes, imported only when met."""
    if name in _EXTENDED:
        import ml_dtypes

        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return extended
    return np.dtype(name)


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def spec_of(name: str, array: Array) -> TensorSpec:
    return TensorSpec(name, array.dtype.name, tuple(array.shape))


def save_tensors(path: Path | str, tensors: Mapping[str, Array]) -> None:
    """Write named arrays to a file, whole or not at all: a reader never sees half a file."""
    pieces = packed(tensors)
    part = f"{path}.part{os.getpid()}"
    with open(part, "wb") as file:
        file.writelines(pieces)
    os.replace(part, path)


def packed(tensors: Mapping[str, Array]) -> list[bytes]:
    """The bytes that stand for named arrays in a file, in pieces."""
    header: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    blobs: list[bytes] = []
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
            raise TypeError(f"tensor {name!r} has dtype {array.dtype}, which cannot be stored")
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        blob = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    if metadata:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return [struct.pack("<Q", len(text)), text, *blobs]


def load_tensors(path: Path | str) -> Arrays:
    """Read what `save_tensors` wrote; the arrays are writable and own their memory."""
    with open(path, "rb") as file:
        return read_tensors(file)


def read_tensors(file: BinaryIO) -> Arrays:
    """The same from where an open file stands."""
    (length,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    metadata = header.pop("__metadata__", {})
    arrays: Arrays = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"][0]):
        start, end = entry["data_offsets"]
        dtype = numpy_dtype(_NAMES[entry["dtype"]])
        array = np.frombuffer(bytearray(file.read(end - start)), dtype=dtype).reshape(entry["shape"])
        if f"complex:{name}" in metadata:
            # a view, not arithmetic: infinity times 1j is NaN
            array = array.view(metadata[f"complex:{name}"]).reshape(array.shape[:-1])
        arrays[name] = array
    return {name: arrays[name] for name in header}
