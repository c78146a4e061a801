"""What workers are asked: which values a program has, and the program with some of them as outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driftline.core.plugins import load_plugins
from driftline.core.tensors import load_tensors
from driftline.core.text import first_line
from driftline.programs.onnx_file import load_structure
from driftline.programs.opened import OpenedProgram


def find(payload: dict[str, Any], context: object) -> dict[str, Any]:
    """`taps` along the program. A torch program is exported first, to `payload["graph"]`: that file is tapped then."""
    program = _opened(payload)
    try:
        if program.form == "onnx":
            from driftline.programs.taps.onnx_taps import list_taps

            return {"taps": [tap.to_json() for tap in list_taps(_model(program), program.example)]}
        from driftline.programs.taps.torch_taps import export_graph, list_torch_taps

        exported = export_graph(program, Path(payload["graph"]))
        return {"taps": [tap.to_json() for tap in list_torch_taps(exported)], "exported": True}
    except MemoryError:
        raise
    except Exception as error:
        return {"problem": f"{type(error).__name__}: {first_line(str(error), 200)}"}


def write(payload: dict[str, Any], context: object) -> dict[str, Any]:
    """The program with `taps` as outputs, in `payload["output"]`; `cuts` are values that become inputs."""
    program = _opened(payload)
    output, taps, cuts = Path(payload["output"]), payload["taps"], payload["cuts"]
    try:
        if program.form == "onnx":
            from driftline.programs.taps.onnx_taps import write_tapped

            return write_tapped(_model(program), taps, output, cuts=cuts, returned=payload["returned"])
        from driftline.programs.taps.torch_taps import write_torch_tapped

        given = load_tensors(payload["cut_values"]) if cuts else {}
        return write_torch_tapped(program, taps, output, cuts=given, returned=payload["returned"])
    except MemoryError:
        raise
    except Exception as error:
        return {"problem": f"{type(error).__name__}: {first_line(str(error), 200)}"}


def _opened(payload: dict[str, Any]) -> OpenedProgram:
    load_plugins(payload["plugins"])
    return OpenedProgram.from_payload(payload, load_tensors(payload["inputs"][0]), lambda stage: None)


def _model(program: OpenedProgram) -> Any:
    """Without the weights that lie in files of their own: nothing here reads them."""
    return load_structure(program.path)
