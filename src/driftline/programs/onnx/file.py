"""Reads and keeps ONNX models, including those with weights in files of their own.

A protobuf message is limited to 2 GB, and its reader holds all of it in memory. So the weights of a big model always
stay in files of their own: `keep_model` writes Driftline's private copy, a small model file and data files named by
their content, so that the hash of the model file covers its weights. A small model becomes a single file, whatever the
user's model is.

All code that needs an ONNX model calls `load_model` (weights in memory) or `load_structure` (no weights), or passes the
path to a runtime that maps the data itself; `mapped` returns an array that is read from the disk on access.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.files import BIG, copy_file
from driftline.core.program import file_digest
from driftline.core.tensors import Array

_ALIGNMENT = 4096  # of weights in a data file: a page, so that they can be mapped
_SMALL_TENSOR = 1024  # bytes: shapes and axes stay in the model, where shape inference reads them
_MESSAGE = (1 << 31) - 1  # bytes of a protobuf message


@dataclass(frozen=True)
class KeptModel:
    """The private copy of a model. `data` names the files beside `path`, `weights` counts the bytes of all tensors."""

    path: Path
    data: tuple[str, ...]
    weights: int


def load_structure(path: Path, name: str = "") -> Any:
    """Return the model without the tensors that are stored in other files."""
    import onnx

    try:
        return onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise DriftlineError(
            f"{name or path.name} is not an ONNX model, or it is cut short ({type(error).__name__}). Export it again."
        ) from error


def load_model(path: Path) -> Any:
    """Return the model with all weights in memory. It may be too large to be serialised."""
    import onnx

    return onnx.load(str(path))


def model_from(data: bytes) -> Any:
    """Return the model of a serialised message."""
    import onnx

    return onnx.load_model_from_string(data)


def serialised(path: Path) -> bytes:
    """Return the whole model as one message. Raises if it is larger than 2 GB."""
    model = load_structure(path)
    if model_size(model) > _MESSAGE:
        raise DriftlineError("The model is larger than 2 GB, and this step needs it as one message; it cannot be done.")
    return bytes(load_model(path).SerializeToString()) if any(external_tensors(model)) else path.read_bytes()


def mapped(tensor: Any, folder: Path) -> Array:
    """Return a tensor that is stored in a file as a read-only array, mapped into memory."""
    import onnx

    place = {entry.key: entry.value for entry in tensor.external_data}
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    shape = tuple(tensor.dims)
    count = int(np.prod(shape, dtype=np.int64))
    if not count or dtype.name in _PACKED:
        loaded = onnx.TensorProto()
        loaded.CopyFrom(tensor)
        onnx.external_data_helper.load_external_data_for_tensor(loaded, str(folder))
        array: Array = onnx.numpy_helper.to_array(loaded)
        return array
    whole = np.memmap(folder / place["location"], np.uint8, "r", int(place.get("offset", 0)), (count * dtype.itemsize,))
    return np.asarray(whole).view(dtype).reshape(shape)


_PACKED = ("int4", "uint4", "int2", "uint2", "float4_e2m1fn", "float4_e2m1")  # several elements to a byte


def is_external(tensor: Any) -> bool:
    return bool(tensor.external_data) and tensor.data_location == 1  # TensorProto.EXTERNAL


def external_tensors(model: Any) -> Iterator[Any]:
    return (tensor for tensor in tensors(model) if is_external(tensor))


def tensors(model: Any) -> Iterator[Any]:
    """Yield every tensor of a model: initialisers and attributes, including those of subgraphs and functions."""
    graphs = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
            nodes += graph.node
            continue
        for attribute in nodes.pop().attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                graphs.append(attribute.g)
            graphs += attribute.graphs


def model_size(model: Any) -> int:
    """Return the bytes of all tensors; for strings and unusual fields an estimate."""
    return sum(_tensor_size(tensor) for tensor in tensors(model))


def _tensor_size(tensor: Any) -> int:
    if tensor.raw_data:
        return len(tensor.raw_data)
    import onnx

    count = math.prod(tensor.dims)
    try:
        return count * int(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except (KeyError, TypeError):  # an element type that this release does not know
        return count


def require_data_files(model: Any, path: Path, name: str) -> dict[str, Path]:
    """Return the data files of a user's model, by location. Raises if a file is missing or outside of the model's
    folder: a model from someone else must not read other files."""
    folder = path.resolve().parent
    found: dict[str, Path] = {}
    for tensor in external_tensors(model):
        locations = [entry.value for entry in tensor.external_data if entry.key == "location"]
        if len(locations) > 1:  # readers differ in which of them they take
            raise DriftlineError(f"{name}: the weights of {tensor.name!r} have two places. Export the model again.")
        location = "".join(locations)
        if location in found:
            continue
        if not location or PurePosixPath(location).is_absolute() or ".." in PurePosixPath(location).parts:
            raise DriftlineError(
                f"{name}: the weights of {tensor.name!r} are said to lie in {location!r}, outside the model's folder."
                " Save the model again, with its data file beside it."
            )
        file = folder / location
        if not file.is_file():
            raise DriftlineError(f"{name} refers to a data file that is missing: {location}. Put it beside the model.")
        if file.resolve() != file:
            raise DriftlineError(
                f"{name}: its data file {location} is a symbolic link. Put the file itself beside the model."
            )
        found[location] = file
    _require_length(model, found, name)
    return found


def _require_length(model: Any, files: dict[str, Path], name: str) -> None:
    sizes = {location: file.stat().st_size for location, file in files.items()}
    for tensor in external_tensors(model):
        place = {entry.key: entry.value for entry in tensor.external_data}
        try:
            offset = int(place.get("offset", 0))
            end = offset + int(place.get("length", 0) or _tensor_size(tensor))
        except ValueError as error:
            raise DriftlineError(f"{name}: the place of the weights of {tensor.name!r} is not a number.") from error
        if offset < 0 or end > sizes[place["location"]]:
            raise DriftlineError(
                f"{name}: its data file {place['location']} is cut short: it has {sizes[place['location']]} bytes, and"
                f" {tensor.name!r} ends at {end}. Copy or export it again."
            )


def keep_model(model: Any, path: Path, folder: Path, name: str = "") -> KeptModel | None:
    """Write the private copy of a model into a folder. Returns `None` for a small model in one file, which needs
    none."""
    import onnx

    files = require_data_files(model, path, name or path.name)
    weights = model_size(model)
    kept = folder / "model.onnx"
    if weights < BIG:
        if not files:
            return None
        onnx.load_external_data_for_model(model, str(path.resolve().parent))
        kept.write_bytes(model.SerializeToString())
        return KeptModel(kept, (), weights)
    renamed = {location: _copied(file, folder) for location, file in files.items()}
    for tensor in external_tensors(model):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = renamed[entry.value]
    own = _move_out(model, folder)
    kept.write_bytes(model.SerializeToString())
    return KeptModel(kept, tuple(sorted({*renamed.values(), *own})), weights)


def _copied(file: Path, folder: Path) -> str:
    name = f"{file_digest(file)}.data"
    copy_file(file, folder / name)
    return name


def _move_out(model: Any, folder: Path) -> list[str]:
    """Move large tensors from the model to a data file named by its content; returns the names of such files."""
    import onnx

    large = [t for t in tensors(model) if not is_external(t) and t.data_type != onnx.TensorProto.STRING]
    large = [tensor for tensor in large if _tensor_size(tensor) >= _SMALL_TENSOR]
    if not large:
        return []
    part = folder / "weights.part"
    digest = hashlib.sha256()
    places: list[tuple[int, int]] = []
    with open(part, "wb") as file:
        for tensor in large:
            padding = b"\0" * (-file.tell() % _ALIGNMENT)
            if not tensor.raw_data:
                tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name))
            for piece in (padding, tensor.raw_data):
                file.write(piece)
                digest.update(piece)
            places.append((file.tell() - len(tensor.raw_data), len(tensor.raw_data)))
            tensor.ClearField("raw_data")
    name = f"{digest.hexdigest()}.data"
    part.replace(folder / name)
    for tensor, (offset, length) in zip(large, places, strict=True):
        for key, value in (("location", name), ("offset", str(offset)), ("length", str(length))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        tensor.data_location = onnx.TensorProto.EXTERNAL
    return [name]
