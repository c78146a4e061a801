"""Converts programs from one form to another, each in a worker; a failure has the stage CONVERT.

A converter names the forms that it links, and the project to blame for wrong results: `torch.onnx` is a compiler too.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from driftline.core.errors import chain, innermost
from driftline.core.execution import Failure, Outcome
from driftline.core.files import BIG
from driftline.core.full_disk import no_room
from driftline.core.handover import is_plain_name
from driftline.core.packages import Installing
from driftline.core.plugins import load_plugins
from driftline.core.program import Program
from driftline.core.task import Context, Task
from driftline.core.tensors import load_tensors
from driftline.core.tracker import PYTORCH, Tracker
from driftline.programs.captured import EXPORT_REJECTIONS, write_captured
from driftline.programs.live import is_tensor
from driftline.programs.onnx.file import keep_model, load_structure
from driftline.programs.opened import OpenedProgram, ProgramChanged

OPSET = 18  # old enough for every ONNX Runtime that installs today, new enough for every operator we emit
IR_VERSION = 8


@dataclass(frozen=True)
class ConvertRequest:
    """A request to write the program to `output` in another form."""

    program: Program
    example: Path  # the inputs that the exporter sees
    output: Path
    open_axes: Mapping[str, tuple[int, ...]]
    seed: int
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class Converted:
    outcome: Outcome
    data: tuple[str, ...] = ()  # files beside the output that hold weights
    failure: Failure | None = None
    problem: str = ""  # why this says nothing about the converter


def _fits(asked: ConvertRequest, made: Converted) -> bool:
    return all(map(is_plain_name, made.data))


TO_ONNX = Task("driftline.programs.convert:to_onnx", ConvertRequest, Converted, _fits)
TO_TFLITE = Task("driftline.programs.convert:to_tflite", ConvertRequest, Converted, _fits)
TO_CAPTURED = Task("driftline.programs.convert:to_captured", ConvertRequest, Converted, _fits)


@dataclass(frozen=True)
class Converter:
    """A conversion from some forms of programs to another form."""

    name: str  # the project that is responsible for the result
    source: tuple[str, ...]  # forms it takes, as in `Backend.accepts`
    form: str  # the form that it makes
    family: str  # the worker it runs in
    task: Task[ConvertRequest, Converted]
    revision: int = 1  # raised when our own part of the conversion changes, so that cached results are made anew
    requirement: str = ""  # the release whose environment it runs in, when it cannot live with the others
    installing: Installing = field(default_factory=Installing)  # how that environment is made
    tracker: Tracker = field(default_factory=Tracker)  # where its bugs are reported

    @property
    def environment(self) -> str:
        return self.requirement.partition("==")[0]


CONVERTERS = (
    Converter("torch.onnx", ("source:torch", "torch"), "onnx", "torch", TO_ONNX, revision=3, tracker=PYTORCH),
    Converter(
        "litert-torch",
        ("source:torch", "torch"),
        "tflite",
        "litert-torch",
        TO_TFLITE,
        requirement="litert-torch==0.10.0",
        installing=Installing(companions=("torch==2.13.0",)),
        tracker=Tracker("https://github.com/google-ai-edge/litert-torch/issues"),
    ),
)


# Not between forms: made once for the targets that start from the graph of torch.export (`Backend.captures`).
CAPTURE = Converter("torch.export", ("source:torch", "torch"), "torch", "torch", TO_CAPTURED)


def find_converter(form: str, framework: str, accepted: tuple[str, ...]) -> Converter | None:
    """Return a converter from the program's form to one that the backend accepts, or None."""
    have = {form, f"{form}:{framework}"}
    for converter in CONVERTERS:
        if converter.form in accepted and have & set(converter.source):
            return converter
    return None


def accepts_directly(form: str, framework: str, accepted: tuple[str, ...]) -> bool:
    return form in accepted or f"{form}:{framework}" in accepted


@TO_ONNX.serve
def to_onnx(request: ConvertRequest, context: Context) -> Converted:
    return _convert(request, _write_onnx)


@TO_TFLITE.serve
def to_tflite(request: ConvertRequest, context: Context) -> Converted:
    return _convert(request, _write_tflite)


@TO_CAPTURED.serve
def to_captured(request: ConvertRequest, context: Context) -> Converted:
    return _convert(request, write_captured)


def _convert(request: ConvertRequest, write: Callable[[OpenedProgram, Path], None]) -> Converted:
    """Run a conversion; an exception becomes part of the returned value."""
    load_plugins(request.plugins)
    example = load_tensors(request.example)
    program = OpenedProgram(request.program, example=example, seed=request.seed, open_axes=request.open_axes)
    try:
        write(program, request.output)
    except MemoryError:
        raise
    except ProgramChanged as error:  # the user can fix this; it is no fault of the converter
        return Converted(Outcome.ERROR, problem=str(error))
    except Exception as error:
        if no_room(error):
            raise
        outcome = Outcome.REJECTED if _is_rejection(error) else Outcome.ERROR
        return Converted(outcome, failure=Failure.of(error, innermost(error)))
    return Converted(Outcome.OK, tuple(path.name for path in request.output.parent.glob("*.data")))


def _write_onnx(program: OpenedProgram, output: Path) -> None:
    import onnx

    try:
        exported = _export_onnx(program, flat=bool(program.open_axes) or not program.live.is_flat)
    except Exception as error:
        if "pytree" not in str(innermost(error)):
            raise
        exported = _export_onnx(program, flat=True)  # it returns an object that torch does not know, such as a cache
    assert exported is not None
    if _takes_or_returns_complex(program, exported):
        raise NotImplementedError("complex inputs and results are pairs of real numbers in the exported ONNX model")
    exported.model.ir_version = IR_VERSION
    if program.program.weights >= BIG:
        _write_big(exported, output)
        return
    model = exported.model_proto
    model.ir_version = IR_VERSION
    # A dtype that an operator takes only in a later opset is exported without a word; no runtime is to blame for it.
    onnx.checker.check_model(model, full_check=True)
    onnx.save_model(model, str(output))


def _takes_or_returns_complex(program: OpenedProgram, exported: Any) -> bool:
    """True if the exporter wrote complex inputs or results as tensors of real numbers with one more dimension."""
    if any(np.iscomplexobj(array) for array in program.example.values()):
        return True
    (output,) = (node for node in exported.exported_program.graph.nodes if node.op == "output")
    results = (getattr(node, "meta", {}).get("val") for node in output.all_input_nodes)
    return any(result is not None and is_tensor(result) and result.is_complex() for result in results)


def _export_onnx(program: OpenedProgram, *, flat: bool) -> Any:
    """Export the program to ONNX. With `flat`, torch sees only tensors: nested arguments and results, caches and
    numbers stay outside."""
    import io

    import torch

    from driftline.programs.flat_torch import FlatModule, as_module
    from driftline.programs.torch_tensors import tensor_from_array

    if flat:
        module = FlatModule(program)
        args, kwargs, shapes = module.example, dict[str, Any](), module.dynamic_shapes
    else:
        args, kwargs = program.live.call_arguments(program.example, tensor_from_array)
        module, shapes = as_module(program.live.function), None

    def export() -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            return torch.onnx.export(
                module,
                args,
                kwargs=kwargs,
                dynamic_shapes=shapes,
                dynamo=True,
                opset_version=OPSET,
                input_names=list(program.example),
                verbose=False,
            )

    try:
        with torch.no_grad():
            return export()
    except Exception as error:
        if not any("does not require grad" in str(one) for one in chain(error, context=True)):
            raise
        return export()  # a program that computes gradients itself


def _write_big(exported: Any, output: Path) -> None:
    """Write a big model's weights straight to a file: as one message they would need far more memory, or not fit."""
    import onnx

    written = output.with_name("written")
    written.mkdir()
    exported.save(str(written / "model.onnx"), external_data=True)
    kept = keep_model(load_structure(written / "model.onnx"), written / "model.onnx", output.parent)
    assert kept is not None
    onnx.checker.check_model(str(kept.path), full_check=True)
    kept.path.replace(output)
    shutil.rmtree(written)


def _write_tflite(program: OpenedProgram, output: Path) -> None:
    import litert_torch  # type: ignore[import-not-found]
    import torch

    from driftline.programs.flat_torch import FlatModule

    # Positional tensors in and out: LiteRT then numbers its inputs, and the backend can tell them apart.
    module = FlatModule(program)
    if program.open_axes:
        raise NotImplementedError("litert-torch fixes all sizes; check one size at a time")
    with torch.no_grad():
        converted = litert_torch.convert(module, module.example, strict_export=False)
    if not all(isinstance(leaf, torch.Tensor) for leaf in module.outputs.values()):
        raise NotImplementedError("litert-torch returns tensors only, and this program returns numbers too")
    converted.export(str(output))


# "This exporter does not do that", in the words of torch.export, torch.onnx and litert-torch.
_REJECTION_TYPES = (
    *EXPORT_REJECTIONS,
    "DispatchError",
    "UnsupportedOperatorError",
    "SymbolicValueError",
    "NotImplementedError",
)
_REJECTION_TEXTS = (
    "No ONNX function found",
    "No decompositions registered",
    "not supported",
    "Unsupported",
    "has unsupported type",
    "Lowering not found",  # litert-torch, of an operator
    "explicitly marked illegal",  # litert-torch, of an operator in this dtype
    "op operand #0 must be tensor of",
    "unsupported ScalarType",
)
# The exporter's tables of operators and of dtypes, each without an entry for the key that the error names.
_NO_ENTRY = re.compile(r"<OpOverload\(op=|^torch\.\w+$")


def _is_rejection(error: BaseException) -> bool:
    return any(
        type(one).__name__ in _REJECTION_TYPES
        or any(text in str(one) for text in _REJECTION_TEXTS)
        or (isinstance(one, KeyError) and bool(_NO_ENTRY.search(str(one.args[0] if one.args else ""))))
        for one in chain(error, context=True)
    )
