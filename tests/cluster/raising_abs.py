"""A compiler for tests: ONNX Runtime, but it raises on Abs."""

from __future__ import annotations

from driftline.backends import register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.programs.opened import OpenedProgram


@register_backend
class RaisingAbs(OnnxRuntime):
    name = "raising-abs"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        if any(node.op_type == "Abs" for node in program.model().graph.node):
            raise RuntimeError("no kernel was selected for Abs")
        return super().compile(program, options)
