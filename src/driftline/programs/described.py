"""The description of a program, made by a worker when it is opened (`inspect.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from driftline.core.handover import is_plain_name
from driftline.core.program import FRAMEWORKS
from driftline.core.task import Task
from driftline.core.tensors import Shape, TensorSpec, numpy_dtype
from driftline.programs.known import NOTHING_KNOWN, Known


@dataclass(frozen=True)
class InspectRequest:
    """A request to describe the program at `path`; example inputs and rewritten files go to `folder`."""

    form: str
    path: Path
    name: str  # the user's name for it
    folder: Path
    origin: str = ""  # the user's file, of a source program
    seed: int = 0
    shapes: Mapping[str, Shape] = field(default_factory=dict)  # of inputs, where the file does not tell


@dataclass(frozen=True)
class Described:
    """The inputs and outputs of a program, and what else inspection found out."""

    framework: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    example: Path | None = None  # a file of input arrays
    known: Known = NOTHING_KNOWN
    state: str = ""  # digest of weights, example inputs and data files
    weights: int = 0  # bytes
    trained: bool = False  # its gradients are compared: see `programs/trained.py`
    siblings: Mapping[str, str] = field(default_factory=dict)  # files that a source program imports, with their text
    onnx: Path | None = None  # an ONNX file that takes the place of the given one
    archive: Path | None = None  # a torch.export archive that does
    data: tuple[str, ...] = ()  # files beside it that hold weights
    without: str = ""  # operators of unknown meaning that were taken out of an ONNX model
    judgeable: tuple[tuple[str, ...], tuple[str, ...]] = (
        (),
        (),
    )  # outputs that do not depend on them; all of them
    largest: TensorSpec | None = None  # the largest value that the program computes, where shapes tell
    notes: tuple[str, ...] = ()  # notes for readers of the results


@dataclass(frozen=True)
class Inspected:
    """The description of a program, or the user's mistake in one sentence."""

    described: Described | None = None
    problem: str = ""


MOST_BYTES = 1 << 48  # of the weights that a worker may claim


def _fits(asked: InspectRequest, answer: Inspected) -> bool:
    found = answer.described
    if not found:
        return bool(answer.problem)
    known = found.framework in FRAMEWORKS and all(numpy_dtype(spec.dtype).kind not in "OUSMm" for spec in found.inputs)
    return known and 0 <= found.weights < MOST_BYTES and all(map(is_plain_name, found.data))


INSPECT = Task("driftline.programs.inspect:inspect", InspectRequest, Inspected, _fits)
