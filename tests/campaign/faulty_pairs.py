"""A compiler for tests: ONNX Runtime, but Abs is taken for Neg and Exp for Sin, without optimisation Cos for Sin, and a
model with both Abs and Tan ends its process. A Tanh that follows an Abs is taken for Sin."""

from __future__ import annotations

import os

from driftline.backends import register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.programs.opened import OpenedProgram

TAKEN_FOR = {"Abs": "Neg", "Exp": "Sin"}


@register_backend
class FaultyPairs(OnnxRuntime):
    name = "faulty-pairs"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import onnx

        model = onnx.load_model_from_string(program.data)
        if {"Abs", "Tan"} <= {node.op_type for node in model.graph.node}:
            os._exit(3)
        fused = {"Abs", "Tanh"} <= {node.op_type for node in model.graph.node}
        for node in model.graph.node:
            if node.op_type == "Tanh" and fused:
                node.op_type = "Sin"
            node.op_type = TAKEN_FOR.get(node.op_type, node.op_type)
            if node.op_type == "Cos" and options.get("opt") == "off":
                node.op_type = "Sin"
        program.data = model.SerializeToString()
        return super().compile(program, options)
