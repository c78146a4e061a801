"""Repeat a program several times in a row: each copy takes the result of the one before it, so that none can be
optimised away.

If no input can take the result, the copies run side by side, each on its own inputs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from driftline.checking.checker import Checker
from driftline.checking.open import open_program, open_source
from driftline.core.case import Case, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.program import Program, SourceBundle
from driftline.programs.operators import operators_of
from driftline.report.scripts.growth import TENSORS

_FILE = "driftline_repeated.py"
_TEXT = '''"""{module}.{entry}, {copies} times."""

import importlib

import torch


{tensors}

class Repeated(torch.nn.Module):
    def __init__(self, function, place):
        super().__init__()
        self.function = function
        self.place = place

    def forward(self, *inputs):
        inputs, results = list(inputs), []
        for copy in range({copies}):
            if self.place is None:
                shifted = [x + copy if x.is_floating_point() else x for x in inputs]
                results += tensors(self.function(*shifted))
            else:
                results = tensors(self.function(*inputs))
                inputs[self.place] = results[0]
        return tuple(results)


def program():
    function, inputs = importlib.import_module({module!r}).{entry}()
    if not isinstance(inputs, (tuple, list)) or not all(isinstance(x, torch.Tensor) for x in inputs):
        raise ValueError("only a program whose inputs are a tuple of tensors can be repeated")
    with torch.no_grad():
        result = (tensors(function(*(x.clone() for x in inputs))) or [None])[0]
    if result is None:
        raise ValueError("a program that returns no tensor cannot be repeated")
    fitting = [at for at, x in enumerate(inputs) if x.shape == result.shape and x.dtype == result.dtype]
    if not fitting and not any(x.is_floating_point() for x in inputs):
        raise ValueError("no input takes the result, nor is one of floats: the copies would all be the same")
    return Repeated(function, fitting[0] if fitting else None), tuple(inputs)
'''


def repeated_case(checker: Checker, case: Case, copies: int) -> Case:
    """Return a case that repeats the program `copies` times. Raise for programs that are neither torch programs in
    Python nor ONNX models.
    """
    program = case.program
    if program.form == "onnx":
        opened = open_program(str(_repeated_file(checker, program, copies)), checker.pool, case.options)
        return replace(case, program=opened.program)
    if program.form != "source" or program.framework != "torch":
        raise DriftlineError(
            f"{program.name}: growth is measured on torch programs in Python (file.py:name or model:NAME), whose text"
            " can be repeated, and on ONNX models."
        )
    name = f"{program.name} x {copies}"
    opened = open_source(_repeated_bundle(program, copies), checker.pool, case.options, name=name)
    return replace(case, program=opened.program, samples=(Inputs(opened.example, "example"),))


def own_nodes(program: Program) -> int:
    """Return the number of nodes that one copy counts for: the nodes of an ONNX model, otherwise the operators of the
    program.
    """
    if program.form != "onnx":
        return max(1, len(operators_of(program)))
    import onnx

    from driftline.programs.onnx.repeated import count_nodes

    return max(1, count_nodes(onnx.load(str(program.path), load_external_data=False)))  # weights do not matter here


def _repeated_file(checker: Checker, program: Program, copies: int) -> Path:
    import onnx

    from driftline.programs.onnx.repeated import repeated_model

    path = checker.pool.workspace.job_folder() / f"{program.path.stem}_x_{copies}.onnx"
    try:
        onnx.save(repeated_model(_model(program), copies), str(path))
    except ValueError as error:
        raise DriftlineError(f"{program.name}: {error}") from error
    return path


def _model(program: Program) -> Any:
    """Load the `onnx.ModelProto` of a program. ONNX is a file format here, not a compiler."""
    import onnx

    return onnx.load(str(program.path))


def _repeated_bundle(program: Program, copies: int) -> SourceBundle:
    bundle = SourceBundle.load(program.path.read_bytes())
    module = PurePath(bundle.entry_file).stem
    text = _TEXT.format(tensors=TENSORS, module=module, entry=bundle.entry_name, copies=copies)
    return SourceBundle(_FILE, "program", {**bundle.files, _FILE: text})
