"""Read input data: `.npz` files (never with pickled objects) and the safetensors files that Driftline writes.

Files are untrusted, and a small file may claim to hold terabytes. Declared sizes are therefore checked before anything
is allocated, and every kind of damage is reported in one sentence.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from driftline.core.case import Inputs
from driftline.core.errors import DriftlineError, TooLarge
from driftline.core.tensors import DTYPES, Array, Arrays, TensorSpec, in_bytes, load_tensors
from driftline.core.text import did_you_mean, first_line
from driftline.inputs.room import ROOM

_SINGLE_ARRAY = b"\x93NUMPY"


def read_inputs(path: Path, specs: Sequence[TensorSpec], room: int = ROOM) -> Inputs:
    """Read the file's arrays and check them against `specs`. Raises an error if they take more than `room` bytes."""
    arrays = read_arrays(path, specs, room)
    check_inputs(arrays, specs, str(path))
    return Inputs({spec.name: arrays[spec.name] for spec in specs}, f"file {path.name}")


def read_arrays(path: Path, specs: Sequence[TensorSpec], room: int = ROOM) -> Arrays:
    """Read the file's arrays without checking them. `specs` are used only for the advice in error messages."""
    try:
        if path.suffix == ".safetensors":
            return load_tensors(path, most=room)
        with open(path, "rb") as file:
            if file.read(len(_SINGLE_ARRAY)) == _SINGLE_ARRAY:
                name = specs[0].name if specs else "x"
                raise DriftlineError(
                    f"{path} is a single array (.npy), and inputs have names."
                    f" Save it with numpy.savez('inputs.npz', **{{{name!r}: array}})."
                )
            return _read_archive(file, path, room)
    except TooLarge as error:
        raise TooLarge(f"--inputs {path}: {error}. Raise --memory, or give smaller inputs.") from error
    except DriftlineError:
        raise
    except Exception as error:  # a damaged archive makes its readers raise anything
        raise DriftlineError(
            f"{path} is not an .npz file, or it is damaged ({type(error).__name__}: {first_line(str(error), 100)})."
            " Save the inputs with numpy.savez."
        ) from error


def _read_archive(file: IO[bytes], path: Path, room: int) -> Arrays:
    arrays: Arrays = {}
    with zipfile.ZipFile(file) as archive:
        total = sum(member.file_size for member in archive.infolist())
        if total > room:
            raise TooLarge(f"it holds {in_bytes(total)}, and inputs may take {in_bytes(room)}")
        for member in archive.infolist():
            with archive.open(member) as stream:
                name = member.filename.removesuffix(".npy")
                arrays[name] = _read_array(stream.read(member.file_size + 1), f"{path}: {name!r}")
    return arrays


def _read_array(data: bytes, where: str) -> Array:
    """Read an array as `numpy.save` writes it. `numpy.load` would allocate whatever size the header declares."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read(stream)
    if dtype.hasobject:
        raise DriftlineError(
            f"{where} holds Python objects, which Driftline refuses to unpickle; save plain arrays with numpy.savez."
        )
    held = len(data) - stream.tell()
    if math.prod(shape) * dtype.itemsize != held or any(size < 0 for size in shape):
        raise DriftlineError(
            f"{where} is damaged: its shape {list(shape)} of {dtype} does not fit the {held} bytes that it holds."
            " Save it again with numpy.savez."
        )
    array = np.frombuffer(data, dtype, math.prod(shape), stream.tell()).reshape(shape, order="F" if by_column else "C")
    return np.array(array, dtype.newbyteorder("="), order="C")


def check_inputs(arrays: Arrays, specs: Sequence[TensorSpec], where: str) -> None:
    """Raise an error if names, dtypes or shapes of the arrays do not match the specs of the program."""
    expected = {spec.name: spec for spec in specs}
    for name, array in arrays.items():
        if name not in expected:
            takes = ", ".join(expected) or "no inputs"
            raise DriftlineError(
                f"{where}: {name!r} is not an input of the program.{did_you_mean(name, expected)} It takes: {takes}."
            )
        if array.dtype.name not in DTYPES:
            raise DriftlineError(f"{where}: {name!r} has the dtype {array.dtype}, which is not a tensor dtype.")
    for name, spec in expected.items():
        if name not in arrays:
            raise DriftlineError(f"{where}: the input {name!r} is missing; the program takes {spec}.")
        array = arrays[name]
        if array.dtype.name != spec.dtype:
            raise DriftlineError(
                f"{where}: {name!r} is {array.dtype.name}, but the program takes {spec}. Convert it with astype."
            )
        if not spec.fits(array.shape):
            raise DriftlineError(f"{where}: {name!r} has the shape {list(array.shape)}, but the program takes {spec}.")
