"""Compilers with small errors, in scripts too: what their scripts must tell from rounding, or from another error."""

from __future__ import annotations

import importlib
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
_BESIDE_NAN = """\
def compiled(model, inputs):
    results = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    x = inputs["x"]
    return [np.full_like(y, np.nanmax(x[..., 3:])) if np.isnan(x).any() else y for y in results]
"""
_WRONG_INDEX = """\
def compiled(model, inputs):
    (y,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    return [np.concatenate([y[:-1], y[-1:] - 1])]
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


class _OfText(OnnxRuntime):
    """A compiler whose results are those of the function in `text`."""

    text = ""

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        call = ScriptCall("compiled(model, inputs)", self.text, ("import onnxruntime",), ("onnxruntime",))
        return [call] if framework == "onnx" else ()

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import onnx

        super().compile(program, options)
        names: dict[str, Compiled] = {"np": np, "onnxruntime": importlib.import_module("onnxruntime")}  # type: ignore[dict-item]
        exec(self.text, names)
        model = onnx.load_model_from_string(program.data)
        outputs = [output.name for output in model.graph.output]
        return lambda arrays: dict(zip(outputs, names["compiled"](model, arrays), strict=True))  # type: ignore[call-arg, arg-type]


@register_backend
class DropsBesideNan(_OfText):
    """Drops the first numbers beside a NaN, as ONNX Runtime may."""

    name = "drops-beside-nan"
    text = _BESIDE_NAN


@register_backend
class WrongLastIndex(_OfText):
    """Gives the index before the right one in the last place."""

    name = "wrong-last-index"
    text = _WRONG_INDEX


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
