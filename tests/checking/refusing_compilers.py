"""Two compilers built on ONNX Runtime that refuse a Relu in words: one when it optimises, one always."""

from __future__ import annotations

from driftline import register_backend
from driftline.backends.base import Compiled, Options, option
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.programs.opened import OpenedProgram


class Refusing(OnnxRuntime):
    family = "onnxruntime"
    levels: tuple[str, ...]

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        operators = {node.op_type for node in program.model().graph.node}
        if "Relu" in operators and option(options, self, "opt") in self.levels:
            raise RuntimeError("the operator Relu is not supported")
        return super().compile(program, options)


@register_backend
class RefusesWhenOptimised(Refusing):
    name = "refuses-when-optimised"
    levels = ("basic", "extended", "all")


@register_backend
class RefusesAlways(Refusing):
    name = "refuses-always"
    levels = ("off", "basic", "extended", "all")
