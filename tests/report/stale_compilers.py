"""Compilers that answer every call with the results of the first, also in the scripts of their bugs, which need no
Driftline; and some that cannot be called again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from driftline import ScriptCall, register_backend
from driftline.backends._dynamo import compile_with_dynamo
from driftline.backends._torch import TorchBackend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram

_STALE_MODEL = """\
def compile_once(model, inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    kept = session.run(None, inputs)
    return lambda inputs: kept
"""
_BREAKING_MODEL = """\
def compile_once(model, inputs):
    calls = iter([onnxruntime.InferenceSession(model.SerializeToString())])

    def run(inputs):
        for session in calls:
            return session.run(None, inputs)
        raise RuntimeError("the workspace was given back")

    return run
"""
_STALE_GRAPH = """\
def stale(graph, example):
    kept = []

    def run(*inputs):
        kept.append(graph(*inputs))
        return kept[0]

    return run
"""


@register_backend
class StaleModel(OnnxRuntime):
    name = "stale-model"
    once = _STALE_MODEL

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        honest = "onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)"  # in a first call
        if framework != "onnx":
            return ()
        return [ScriptCall(honest, imports=("import onnxruntime",), packages=("onnxruntime",), once=self.once)]

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest, kept = super().compile(program, options), {}

        def run(arrays: Arrays) -> Arrays:
            if not kept:
                kept.update(honest(arrays))
            return dict(kept)

        return run


@register_backend
class StaleWithoutShortCall(StaleModel):
    name = "stale-in-one-call"
    once = ""


@register_backend
class BreakingModel(StaleModel):
    name = "breaks-when-called-again"
    once = _BREAKING_MODEL

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest, calls = OnnxRuntime.compile(self, program, options), list[Arrays]()

        def run(arrays: Arrays) -> Arrays:
            if calls:
                raise RuntimeError("the workspace was given back")
            calls.append(arrays)
            return honest(arrays)

        return run


@register_backend
class StaleGraph(TorchBackend):
    name = "stale-graph"

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        return [ScriptCall("torch.compile(function, backend=stale)", _STALE_GRAPH)] if framework == "torch" else ()

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        names: dict[str, Callable[..., Any]] = {}
        exec(_STALE_GRAPH, names)
        return compile_with_dynamo(program, names["stale"], options)
