"""A compiler for tests: ONNX Runtime, but it takes Abs for Neg, and a single number ends its process.

A short hunt draws no single number; a reduction ends up with one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from driftline.backends import register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.core.tensors import Arrays
from driftline.generate import register_generator
from driftline.generate.random_graph import RandomGraph
from driftline.programs.opened import OpenedProgram


@register_backend
class TwoFacedAbs(OnnxRuntime):
    name = "two-faced-abs"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import onnx

        model = onnx.load_model_from_string(program.data)
        wrong = [node for node in model.graph.node if node.op_type == "Abs"]
        for node in wrong:
            node.op_type = "Neg"
        program.data = model.SerializeToString()
        compiled = super().compile(program, options)

        def run(arrays: Arrays) -> Arrays:
            if wrong and any(array.size == 1 for array in arrays.values()):
                os._exit(3)
            return compiled(arrays)

        return run


@register_generator
class OnlyAbs(RandomGraph):
    name = "only-abs"

    def arms(self, form: str) -> Sequence[str]:
        return ["abs"]
