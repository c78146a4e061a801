"""Captures a torch program once with `torch.export`, for all compilers that start from its graph.

The file is a .pt2 archive of the flat program (tensors in, a tuple of tensors out) with one more entry: the example
that the archive was made for, and the names of the results. A program that cannot be saved in this way is captured by
each target itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftline.core.tensors import Arrays
from driftline.programs.live import is_tensor
from driftline.programs.opened import OpenedProgram
from driftline.programs.pickled import load_exported

_ABOUT = "driftline.json"
_TENSOR = np.empty(0)  # placeholder for a tensor among the results

# Names of the errors that torch.export raises for a program that it cannot capture.
EXPORT_REJECTIONS = (
    "UserError",
    "Unsupported",
    "GuardOnDataDependentSymNode",
    "PendingUnbackedSymbolNotFound",
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "UnsupportedOperatorException",
    "UnsupportedFakeTensorException",
    "UncapturedHigherOrderOpError",
)


@dataclass(frozen=True)
class Captured:
    """The graph that `torch.export` made, and the names of its inputs and results. Results that are not tensors are
    constants of the program."""

    exported: Any  # torch.export.ExportedProgram
    inputs: tuple[str, ...]
    outputs: Mapping[str, Any]


def capture(program: OpenedProgram) -> Captured:
    """Run `torch.export` on the program."""
    import torch

    from driftline.programs.flat_torch import FlatModule

    flat = FlatModule(program)
    with torch.no_grad():
        exported = torch.export.export(flat, flat.example, dynamic_shapes=flat.dynamic_shapes, strict=False)
    return Captured(exported, flat.inputs, dict(flat.outputs))


def write_captured(program: OpenedProgram, output: Path) -> None:
    import torch

    made = capture(program)
    about = {
        "for": _made_for(program.example, program.open_axes),
        "outputs": [[name, None if is_tensor(leaf) else leaf] for name, leaf in made.outputs.items()],
    }
    torch.export.save(made.exported, str(output), extra_files={_ABOUT: json.dumps(about)})


def read_captured(path: Path, program: OpenedProgram) -> Captured | None:
    """Read the capture of a program from a file. `None` if it was made for other sizes, or needs code that is not
    loaded here, such as the user's own operators."""
    found = {_ABOUT: ""}
    try:
        exported = load_exported(path, extra_files=found)
        about = json.loads(found[_ABOUT])
    except Exception:  # torch raises whatever the missing code does; the caller then captures the program itself
        return None
    if about["for"] != _made_for(program.example, program.open_axes):
        return None
    outputs = {name: _TENSOR if leaf is None else leaf for name, leaf in about["outputs"]}
    return Captured(exported, tuple(program.example), outputs)


def _made_for(example: Arrays, axes: Mapping[str, Sequence[int]]) -> list[list[Any]]:
    """Return each input's name, dtype and sizes; an open size is None."""

    def sizes(name: str) -> list[int | None]:
        return [None if axis in axes.get(name, ()) else size for axis, size in enumerate(example[name].shape)]

    return [[name, array.dtype.name, sizes(name)] for name, array in example.items()]
