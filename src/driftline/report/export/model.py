"""Write the model and its inputs in the layout of the ONNX test suite, so that the tools of any runtime can run it.

FOLDER/model.onnx
FOLDER/test_data_set_0/input_0.pb, ..., output_0.pb, ...    what goes in, and what should come out
FOLDER/inputs.npz                                           the same inputs for numpy
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.tensors import Arrays
from driftline.report.export.subject import Subject

if TYPE_CHECKING:
    import onnx


def write_model(subject: Subject, folder: Path) -> list[Path]:
    """Write the folder and return the paths of the files."""
    import onnx

    program = subject.converted or subject.case.program
    if program.form != "onnx":
        raise DriftlineError(
            f"{subject.bug.id} is about a {program.framework} program that {subject.target} takes as it is;"
            " there is no ONNX model of it. Use --as script."
        )
    require_folder(folder)
    try:
        return _write_folder(subject, onnx.load(str(program.path)), folder)
    except OSError as error:
        raise DriftlineError(f"--out {folder} cannot be written: {error.strerror}. Name another folder.") from error


def require_folder(folder: Path) -> None:
    """Raise if the folder cannot be created, because an existing part of its path is a file. No folder is created
    yet.
    """
    present = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not present.is_dir():
        raise DriftlineError(f"--out {folder}: {present} is a file; for onnx name a folder.")


def _write_folder(subject: Subject, model: onnx.ModelProto, folder: Path) -> list[Path]:
    """Write the model, inputs and outputs into the folder and return the paths of the files."""
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    written = [folder / "model.onnx"]
    names = [value.name for value in model.graph.input if value.name in subject.arrays]
    written += _write(data, "input", {name: subject.arrays[name] for name in names})
    written += _write(data, "output", subject.expected)
    # What numpy cannot name without help travels as a wider float.
    plain = {n: a.astype(np.float32) if a.dtype.kind == "V" else a for n, a in subject.arrays.items()}
    np.savez(folder / "inputs.npz", allow_pickle=False, **plain)
    return [*written, folder / "inputs.npz"]


def _write(folder: Path, what: str, arrays: Arrays) -> list[Path]:
    from onnx import numpy_helper

    written = []
    for index, (name, array) in enumerate(arrays.items()):
        path = folder / f"{what}_{index}.pb"
        path.write_bytes(numpy_helper.from_array(np.ascontiguousarray(array), name).SerializeToString())
        written.append(path)
    return written
