"""A compiler for tests: ONNX Runtime, but it takes Abs for Neg until a file `mended` lies beside this one."""

from __future__ import annotations

from pathlib import Path

from driftline.backends import register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.programs.opened import OpenedProgram


@register_backend
class SometimesWrong(OnnxRuntime):
    name = "sometimes-wrong"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import onnx

        model = onnx.load_model_from_string(program.data)
        for node in model.graph.node:
            if node.op_type == "Abs" and not Path(__file__).with_name("mended").exists():
                node.op_type = "Neg"
        program.data = model.SerializeToString()
        return super().compile(program, options)
