"""The worker task of localisation: read a program into a graph without running it."""

from __future__ import annotations

from driftline.core.plugins import load_plugins
from driftline.core.task import Context
from driftline.core.text import first_line
from driftline.diagnose.reduce.requests import READ_ALONE, ReadGraph, ReadRequest
from driftline.diagnose.reduce.values import Values
from driftline.programs.opened import OpenedProgram


@READ_ALONE.serve
def read(request: ReadRequest, context: Context) -> ReadGraph:
    """Read the graph without its values, which are computed later in stretches."""
    load_plugins(request.case.plugins)
    samples = request.case.samples()
    values = Values(request.values)
    try:
        opened = OpenedProgram.of(request.case, samples[0])
        if opened.framework == "onnx":
            from driftline.diagnose.reduce.onnx_graph import read_onnx

            graph = read_onnx(opened.data, samples, values)
        else:
            from driftline.diagnose.reduce.fx_graph import read_torch

            graph = read_torch(opened, samples, request.tracer, values)
    except Exception as error:
        return ReadGraph(problem=f"{type(error).__name__}: {first_line(str(error), 200)}")
    return ReadGraph(graph)
