"""Compilers with small errors, in scripts too: what their scripts must tell from rounding, or from another error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftline import ScriptCall, register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram

_NEAR_ZERO = """\
def compiled(model, inputs):
    results = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    return [np.where(np.abs(y) < 1e-6, y * np.float32(1.0001), y) for y in results]
"""
_COMPLAINS = """\
def compiled(model, inputs):
    if model.graph.value_info:
        raise RuntimeError("the type of a value in between is not welcome here")
    raise ValueError("the model has no types of values in between")
"""


@register_backend
class WrongNearZero(OnnxRuntime):
    """Off by a part of numbers that are close to zero: far below any absolute tolerance."""

    name = "wrong-near-zero"

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        call = ScriptCall("compiled(model, inputs)", _NEAR_ZERO, ("import onnxruntime",), ("onnxruntime",))
        return [call] if framework == "onnx" else ()

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest = super().compile(program, options)

        def run(arrays: Arrays) -> Arrays:
            return {n: np.where(np.abs(y) < 1e-6, y * np.float32(1.0001), y) for n, y in honest(arrays).items()}

        return run


@register_backend
class ComplainsOfTypes(OnnxRuntime):
    """Raises one error where a model states the types of values in between, and another one where it does not."""

    name = "complains-of-types"

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        call = ScriptCall("compiled(model, inputs)", _COMPLAINS)
        return [call] if framework == "onnx" else ()

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import onnx

        model = onnx.load_model_from_string(program.data)
        if {node.op_type for node in model.graph.node} <= {"Identity", "Add"}:  # one that fails there too is broken
            return super().compile(program, options)
        names: dict[str, Compiled] = {}
        exec(_COMPLAINS, names)
        return lambda arrays: names["compiled"](model, arrays)  # type: ignore[call-arg, arg-type]
