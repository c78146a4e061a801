"""The first look at a program, in a worker: what does it take, and on which example?

A user's mistake comes back as `{"problem": sentence}`; the parent turns it into a `DriftlineError`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.program import SourceBundle
from driftline.core.tensors import Arrays, save_tensors, spec_of
from driftline.core.text import first_line
from driftline.programs.live import LiveProgram
from driftline.programs.onnx_cut import cut_around_unknown
from driftline.programs.onnx_file import KeptModel, model_size
from driftline.programs.onnx_model import describe_model, read_model
from driftline.programs.opened import live_of_archive, load_archive
from driftline.programs.source import imported_siblings, live_from_source
from driftline.programs.state import recording_opened_files, state_digest, state_size

Description = dict[str, Any]


def inspect(payload: dict[str, Any], context: object) -> Description:
    """Describe the program at `payload["path"]`; example inputs, if it has any, go to `payload["folder"]`."""
    readers = {"source": _inspect_source, "torch": _inspect_archive, "onnx": _inspect_onnx}
    try:
        return readers[payload["form"]](payload)
    except DriftlineError as error:
        return {"problem": str(error)}


def _inspect_source(payload: dict[str, Any]) -> Description:
    bundle = SourceBundle.load(Path(payload["path"]).read_bytes())
    with recording_opened_files() as opened:
        live = live_from_source(bundle, payload["origin"], payload["seed"])
    arrays = live.example_arrays()
    if live.framework == "onnx":
        return _store_onnx(payload, live, arrays)
    described = _described(payload, live.framework, arrays)
    described["state"] = state_digest(live, opened)
    if live.framework == "torch":
        from driftline.programs.torch_ranges import known_of_module

        described["known"] = known_of_module(live)
    described["weights"] = state_size(live)
    described["siblings"] = imported_siblings(bundle, payload["origin"]) if payload["origin"] else {}
    return described


def _store_onnx(payload: dict[str, Any], live: LiveProgram, arrays: Arrays) -> Description:
    """A factory may return an ONNX model: from here on it is an `onnx` program like any file."""
    model: Any = live.function
    data = model if isinstance(model, bytes) else model.SerializeToString()
    path = Path(payload["folder"]) / "model.onnx"
    path.write_bytes(data)
    folder = Path(payload["folder"]) / "kept"
    folder.mkdir()
    read, kept = read_model(path, folder)
    described = describe_model(read)
    if live.positional:
        arrays = dict(zip((spec["name"] for spec in described["inputs"]), arrays.values(), strict=False))
    return {**described, **_described(payload, "onnx", arrays), "onnx": str(path), **_kept(kept)}


def _inspect_archive(payload: dict[str, Any]) -> Description:
    try:
        exported = load_archive(Path(payload["path"]))
        live = live_of_archive(exported)
    except Exception as error:
        raise DriftlineError(
            f"{payload['name']} is not a torch.export archive that this torch can load:"
            f" {type(error).__name__}: {first_line(str(error))}. Export it again with torch.export.save."
        ) from error
    from driftline.programs.torch_ranges import known_of_archive

    return {**_described(payload, "torch", live.example_arrays()), "known": known_of_archive(exported, live)}


def _inspect_onnx(payload: dict[str, Any]) -> Description:
    model, kept = read_model(Path(payload["path"]), Path(payload["folder"]), payload["name"])
    cut = cut_around_unknown(model)
    described: Description = {}
    if cut:
        if not model.graph.node or not model.graph.output:
            raise DriftlineError(f"{payload['name']} has no node whose meaning is known: there is nothing to judge.")
        kept = kept or KeptModel(Path(payload["folder"]) / "model.onnx", (), model_size(model))
        kept.path.write_bytes(model.SerializeToString())
        described["without"] = cut.operators
        described["notes"] = [str(cut)]
    return {**describe_model(model), **_kept(kept), **described}


def _kept(kept: KeptModel | None) -> Description:
    """Where the private copy lies, when it is another file than the user's."""
    return {} if kept is None else {"onnx": str(kept.path), "data": list(kept.data), "weights": kept.weights}


def _described(payload: dict[str, Any], framework: str, arrays: Arrays) -> Description:
    path = Path(payload["folder"]) / "example.safetensors"
    save_tensors(path, arrays)
    specs = [spec_of(name, array) for name, array in arrays.items()]
    return {
        "framework": framework,
        "inputs": [{"name": s.name, "dtype": s.dtype, "shape": list(s.shape)} for s in specs],
        "example": str(path),
    }
