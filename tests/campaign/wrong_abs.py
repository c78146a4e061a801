"""A compiler for tests: ONNX Runtime, but it takes Abs for Neg, and Sign ends its process."""

from __future__ import annotations

import os
from collections.abc import Sequence

from driftline.backends import register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.generate import register_generator
from driftline.generate.random_graph import RandomGraph
from driftline.programs.opened import OpenedProgram


@register_backend
class WrongAbs(OnnxRuntime):
    name = "wrong-abs"
    batch = 15

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import onnx

        model = onnx.load_model_from_string(program.data)
        for node in model.graph.node:
            if node.op_type == "Abs":
                node.op_type = "Neg"
            if node.op_type == "Sign":
                os._exit(3)
        program.data = model.SerializeToString()
        return super().compile(program, options)


@register_generator
class Few(RandomGraph):
    """Random programs about a few operators, so that a short hunt meets what is planted."""

    name = "few"

    def arms(self, form: str) -> Sequence[str]:
        return ["abs", "exp", "sign", "add"]
