"""A user's own data: `.npz` files (never with pickled objects) and the safetensors files Driftline writes."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from driftline.core.case import Inputs
from driftline.core.errors import DriftlineError
from driftline.core.tensors import DTYPES, Arrays, TensorSpec, load_tensors
from driftline.core.text import did_you_mean


def read_inputs(path: Path, specs: Sequence[TensorSpec]) -> Inputs:
    """The file's arrays, checked against what the program takes."""
    arrays = _read(path)
    check_inputs(arrays, specs, str(path))
    return Inputs({spec.name: arrays[spec.name] for spec in specs}, f"file {path.name}")


def _read(path: Path) -> Arrays:
    try:
        if path.suffix == ".safetensors":
            return load_tensors(path)
        if not zipfile.is_zipfile(path):  # numpy would take it for a pickle
            raise zipfile.BadZipFile
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise DriftlineError(
                f"{path} holds Python objects, which Driftline refuses to unpickle; save plain arrays with numpy.savez."
            ) from error
        raise DriftlineError(f"{path} cannot be read: {error}. Save it again with numpy.savez.") from error
    except (OSError, zipfile.BadZipFile, AttributeError) as error:
        raise DriftlineError(f"{path} is not an .npz file. Save the inputs with numpy.savez.") from error


def check_inputs(arrays: Arrays, specs: Sequence[TensorSpec], where: str) -> None:
    """Names, dtypes and ranks must be those of the program; sizes are the program's own business."""
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
