"""A compiler that fuses wrongly, for tests of the view layer by layer: a plugin file."""

from __future__ import annotations

import numpy as np

from driftline.backends import register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram


@register_backend
class OddFusion(OnnxRuntime):
    """Wrong where a Relu is fused with what reads it, which it is unless its result is an output."""

    name = "odd-fusion"
    family = "onnxruntime"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest = super().compile(program, {"opt": "off"})
        model = program.model()
        returned = {value.name for value in model.graph.output}
        fused = any(node.op_type == "Relu" and node.output[0] not in returned for node in model.graph.node)

        def run(arrays: Arrays) -> Arrays:
            outputs = honest(arrays)
            if fused and "y" in outputs:
                outputs["y"] = outputs["y"] + np.float32(0.01)
            return outputs

        return run
