"""Worker tasks: write composed models to files, and run the reference of models on their inputs."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from driftline.core.full_disk import no_room
from driftline.core.plugins import load_plugins
from driftline.core.registry import import_string
from driftline.core.task import Context
from driftline.core.tensors import Arrays
from driftline.core.text import first_line
from driftline.execute.shelf import Shelf, load_samples
from driftline.generate.emit_onnx import emit_onnx
from driftline.generate.emit_torch import emit_torch
from driftline.instabilities.requests import (
    REFER,
    WRITE_MODELS,
    NamedGraph,
    ReferItem,
    Referred,
    ReferredBatch,
    ReferRequest,
    WriteModelsRequest,
    WrittenModels,
)
from driftline.oracle.arithmetic import IEEE
from driftline.oracle.reference import REFERENCES, measure_spread
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.shadow.task import FRONT_ENDS
from driftline.programs.opened import OpenedProgram


@WRITE_MODELS.serve
def write_models(request: WriteModelsRequest, context: Context) -> WrittenModels:
    problems = []
    for model in request.models:
        context.lap()
        try:
            _write(model, request.folder)
            problems.append("")
        except Exception as error:
            if no_room(error):
                raise
            problems.append(f"{type(error).__name__}: {first_line(str(error), 200)}")
    return WrittenModels(tuple(problems))


def _write(model: NamedGraph, folder: Path) -> None:
    import onnx
    import torch

    text = emit_torch(model.graph)
    space: dict[str, object] = {"__name__": "composed"}  # TorchScript asks for the module of a function
    exec(compile(text, f"{model.name}.py", "exec"), space)
    function, example = space["program"]()  # type: ignore[operator]
    with torch.no_grad():
        script = torch.jit.trace(_as_module(function), example)
    file = io.BytesIO()
    torch.jit.save(script, file)
    data = emit_onnx(model.graph)
    onnx.checker.check_model(data)
    (folder / f"{model.name}.py").write_text(text)
    (folder / f"{model.name}.pt").write_bytes(file.getvalue())
    (folder / f"{model.name}.onnx").write_bytes(data)


def _as_module(function: Callable[..., Any]) -> Any:
    """Return the function as a module. TorchScript stores input shapes only for traced modules; input names come from
    the function."""
    import torch

    class Composed(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *inputs: Any) -> Any:
            return function(*inputs)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = inspect.Signature([own, *inspect.signature(function).parameters.values()])
    Composed.forward.__signature__ = named  # type: ignore[attr-defined]
    return Composed().eval()


@REFER.serve
def refer(request: ReferRequest, context: Context) -> ReferredBatch:
    """Run the reference of each program on its samples, in the program's own dtypes and in float64."""
    load_plugins(request.plugins)
    found = []
    with Shelf(request.folder / "reference") as shelf:
        for item in request.items:
            context.lap()
            try:
                found.append(_referred(item, shelf))
            except Exception as error:  # of one model, which is no reason to lose the others
                if no_room(error):
                    raise
                found.append(Referred(problem=f"{type(error).__name__}: {first_line(str(error), 200)}"))
    return ReferredBatch(tuple(found))


def _referred(item: ReferItem, shelf: Shelf) -> Referred:
    samples = load_samples(item.tensors)
    opened = OpenedProgram(item.program, example=samples[0])
    reference = import_string(REFERENCES[item.program.framework])(opened)
    native = [reference.native(arrays) for arrays in samples]
    exact = [_exact(item, reference, arrays, own) for arrays, own in zip(samples, native, strict=True)]
    known = [found for found in exact if found is not None]
    return Referred(
        native=shelf.put_samples(native), exact=shelf.put_samples(known) if len(known) == len(exact) else ""
    )


def _exact(item: ReferItem, reference: object, arrays: Arrays, native: Arrays) -> Arrays | None:
    framework = item.program.framework
    try:
        if framework in FRONT_ENDS:
            opened = OpenedProgram(item.program, example=arrays)
            found: Arrays = import_string(FRONT_ENDS[framework])(opened, arrays, IEEE).reference()
        else:
            measured, _, _ = measure_spread(reference, arrays, native)  # type: ignore[arg-type]
            if measured is None:
                return None
            found = measured
    except NoExactReference:
        return None
    return {name: np.asarray(found[name]) for name in native if name in found}
