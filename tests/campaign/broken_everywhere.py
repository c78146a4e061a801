"""Compilers for tests with a fault of their own: one raises an ImportError for every program, one for every second one,
one ends its process, and one raises for those with an Exp."""

from __future__ import annotations

from driftline.backends import register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.programs.opened import OpenedProgram


@register_backend
class BrokenEverywhere(OnnxRuntime):
    name = "broken-everywhere"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        raise ImportError("cannot import name 'lower' from 'broken_compiler'")


@register_backend
class BrokenEverySecond(OnnxRuntime):
    name = "broken-every-second"
    asked = 0

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        BrokenEverySecond.asked += 1
        if BrokenEverySecond.asked % 2:
            raise ImportError("cannot import name 'lower' from 'broken_compiler'")
        return super().compile(program, options)


@register_backend
class BrokenExp(OnnxRuntime):
    name = "broken-exp"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import onnx

        if "Exp" in {node.op_type for node in onnx.load_model_from_string(program.data).graph.node}:
            raise ImportError("cannot import name 'exp' from 'broken_compiler'")
        return super().compile(program, options)


@register_backend
class BrokenExit(OnnxRuntime):
    name = "broken-exit"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        raise SystemExit(0)
