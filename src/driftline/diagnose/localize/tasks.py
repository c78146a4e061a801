"""What workers are asked while a failure is localised: read a program into a graph, without running it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driftline.core.plugins import load_plugins
from driftline.core.tensors import load_tensors
from driftline.core.text import first_line
from driftline.diagnose.reduce.values import Values
from driftline.programs.opened import OpenedProgram


def read(payload: dict[str, Any], context: object) -> dict[str, Any]:
    """The graph alone: what its values are is computed in stretches. `problem` says why there is none."""
    load_plugins(payload["plugins"])
    samples = [load_tensors(path) for path in payload["inputs"]]
    values = Values(Path(payload["values"]))
    try:
        opened = OpenedProgram.from_payload(payload, samples[0], lambda stage: None)
        if opened.framework == "onnx":
            from driftline.diagnose.reduce.onnx_graph import read_onnx

            graph = read_onnx(opened.data, samples, values)
        else:
            from driftline.diagnose.reduce.fx_graph import read_torch

            graph = read_torch(opened, samples, payload["tracer"], values)
    except Exception as error:
        return {"problem": f"{type(error).__name__}: {first_line(str(error), 200)}"}
    return {"graph": graph.to_json()}
