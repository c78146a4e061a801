"""The tasks of workers about values inside a program: list them, or write the program with some as outputs."""

from __future__ import annotations

from typing import Any

from driftline.core.case_files import CaseFiles
from driftline.core.plugins import load_plugins
from driftline.core.task import Context
from driftline.core.tensors import load_tensors
from driftline.core.text import first_line
from driftline.programs.onnx.file import load_structure
from driftline.programs.opened import OpenedProgram
from driftline.programs.taps.requests import FIND, WRITE_TAPPED, FindRequest, FoundTaps, TapAnswer, TapRequest


@FIND.serve
def find(request: FindRequest, context: Context) -> FoundTaps:
    program = _opened(request.case)
    try:
        if program.form == "onnx":
            from driftline.programs.taps.onnx_taps import list_taps

            return FoundTaps(tuple(list_taps(_model(program), program.example)))
        from driftline.programs.taps.torch_taps import export_graph, list_torch_taps

        exported = export_graph(program, request.graph)
        return FoundTaps(tuple(list_torch_taps(exported)), exported=True)
    except MemoryError:
        raise
    except Exception as error:
        return FoundTaps(problem=f"{type(error).__name__}: {first_line(str(error), 200)}")


@WRITE_TAPPED.serve
def write(request: TapRequest, context: Context) -> TapAnswer:
    program = _opened(request.case)
    output, taps, returned = request.output, request.taps, request.returned
    try:
        if program.form == "onnx":
            from driftline.programs.taps.onnx_taps import write_tapped

            return TapAnswer(write_tapped(_model(program), taps, output, cuts=request.cuts, returned=returned))
        from driftline.programs.taps.torch_taps import write_torch_tapped

        given = load_tensors(request.cut_values) if request.cuts else {}
        return TapAnswer(write_torch_tapped(program, taps, output, cuts=given, returned=returned))
    except MemoryError:
        raise
    except Exception as error:
        return TapAnswer(problem=f"{type(error).__name__}: {first_line(str(error), 200)}")


def _opened(case: CaseFiles) -> OpenedProgram:
    load_plugins(case.plugins)
    return OpenedProgram.of(case, load_tensors(case.inputs[0]))


def _model(program: OpenedProgram) -> Any:
    """Return the model without weights in files of their own, which nothing here reads."""
    return load_structure(program.path)
