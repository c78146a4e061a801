"""Inspects a program in a worker: its inputs and an example.

A user's mistake comes back as a sentence (`Inspected.problem`); the parent turns it into a `DriftlineError`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.program import SourceBundle
from driftline.core.structure import flatten
from driftline.core.task import Context
from driftline.core.tensors import Arrays, save_tensors, spec_of
from driftline.core.text import first_line
from driftline.programs.described import INSPECT, Described, Inspected, InspectRequest
from driftline.programs.live import LiveProgram
from driftline.programs.onnx.cut import cut_around_unknown
from driftline.programs.onnx.file import KeptModel, model_size
from driftline.programs.onnx.model import describe_model, read_model
from driftline.programs.opened import live_of_archive, load_archive
from driftline.programs.operators import operators_of_archive
from driftline.programs.source import imported_siblings, live_from_source
from driftline.programs.state import recording_opened_files, state_digest, state_size
from driftline.programs.torchscript_file import write_archive
from driftline.programs.trained import asks_for_gradients, has_differentiated_input

_DENSE = "torch.strided"


@INSPECT.serve
def inspect(request: InspectRequest, context: Context) -> Inspected:
    readers = {
        "source": _inspect_source,
        "torch": _inspect_archive,
        "torchscript": _inspect_torchscript,
        "onnx": _inspect_onnx,
    }
    try:
        return Inspected(readers[request.form](request))
    except DriftlineError as error:
        return Inspected(problem=str(error))
    except (MemoryError, SystemExit):
        raise
    except Exception as error:
        if request.form == "source":
            raise  # errors of a user's file are handled where it is called: this one is Driftline's
        # A foreign file can be wrong in more ways than anybody has thought of.
        told = f"{type(error).__name__}: {first_line(str(error))}"
        return Inspected(problem=f"{request.name} cannot be read ({told}). Export it again.")


def _inspect_source(request: InspectRequest) -> Described:
    bundle = SourceBundle.load(request.path.read_bytes())
    with recording_opened_files() as opened:
        live = live_from_source(bundle, request.origin, request.seed)
    arrays = _example(live)
    if live.framework == "onnx":
        return _store_onnx(request, live, arrays)
    described = replace(_described(request, live.framework, arrays), state=state_digest(live, opened))
    if live.framework == "torch":
        from driftline.programs.torch_ranges import known_of_module

        described = replace(described, known=known_of_module(live), trained=asks_for_gradients(live))
    siblings = imported_siblings(bundle, request.origin) if request.origin else {}
    return replace(described, weights=state_size(live), siblings=siblings)


def _example(live: LiveProgram) -> Arrays:
    for name, leaf in flatten(live.arguments, "input").items():
        if str(getattr(leaf, "layout", _DENSE)) != _DENSE or getattr(leaf, "is_quantized", False):
            raise DriftlineError(f"The input {name!r} is a sparse or quantised tensor. Give dense tensors of numbers.")
    try:
        return live.example_arrays()
    except DriftlineError:
        raise
    except Exception as error:
        raise DriftlineError(
            f"The example inputs cannot be read as arrays ({type(error).__name__}: {first_line(str(error))})."
            " Give dense tensors of numbers on the CPU."
        ) from error


def _store_onnx(request: InspectRequest, live: LiveProgram, arrays: Arrays) -> Described:
    """Write an ONNX model that a factory returned to a file: from here on the program has the form `onnx`."""
    model: Any = live.function
    data = model if isinstance(model, bytes) else model.SerializeToString()
    path = request.folder / "model.onnx"
    path.write_bytes(data)
    folder = request.folder / "kept"
    folder.mkdir()
    read, kept = read_model(path, folder)
    described = describe_model(read)
    if live.positional:
        arrays = dict(zip((spec.name for spec in described.inputs), arrays.values(), strict=False))
    example = _described(request, "onnx", arrays)
    return _kept(replace(described, inputs=example.inputs, example=example.example, onnx=path), kept)


def _inspect_archive(request: InspectRequest) -> Described:
    try:
        exported = load_archive(request.path)
        live = live_of_archive(exported)
    except DriftlineError:
        raise
    except Exception as error:
        raise DriftlineError(
            f"{request.name} is not a torch.export archive that this torch can load:"
            f" {type(error).__name__}: {first_line(str(error))}. Export it again with torch.export.save."
        ) from error
    from driftline.programs.torch_ranges import known_of_archive

    described = replace(_described(request, "torch", live.example_arrays()), trained=has_differentiated_input(live))
    return replace(described, known=known_of_archive(exported, live), operators=operators_of_archive(exported))


def _inspect_torchscript(request: InspectRequest) -> Described:
    path = request.folder / "model.pt2"
    write_archive(request.path, request.name, request.shapes, request.seed, path)
    return replace(_inspect_archive(replace(request, path=path)), archive=path)


def _inspect_onnx(request: InspectRequest) -> Described:
    model, kept = read_model(request.path, request.folder, request.name)
    cut = cut_around_unknown(model)
    if not cut:
        return _kept(describe_model(model), kept)
    if not model.graph.node or not model.graph.output:
        raise DriftlineError(f"{request.name} has no node whose meaning is known: there is nothing to judge.")
    kept = kept or KeptModel(request.folder / "model.onnx", (), model_size(model))
    kept.path.write_bytes(model.SerializeToString())
    return replace(
        _kept(describe_model(model), kept), without=cut.operators, judgeable=(cut.known, cut.outputs), notes=(str(cut),)
    )


def _kept(described: Described, kept: KeptModel | None) -> Described:
    """Return the description with the location of the private copy, if there is one."""
    if kept is None:
        return described
    return replace(described, onnx=kept.path, data=tuple(kept.data), weights=kept.weights)


def _described(request: InspectRequest, framework: str, arrays: Arrays) -> Described:
    path = request.folder / "example.safetensors"
    save_tensors(path, arrays)
    return Described(framework, tuple(spec_of(name, array) for name, array in arrays.items()), example=path)
