"""A fault at one stage of a compiler each, for tests of blame. A plugin file.

`planted-decomposition` replaces an operator while torch.compile takes a program apart; `planted-optimiser` is ONNX
Runtime with a wrong rewrite, unless its optimisations are off; the exporter writes another operator for `sinh`. What
eager's kernels get wrong is planted by the programs themselves, in `faulty_programs.py`.
"""

from __future__ import annotations

import time
from typing import Any

from driftline.backends import register_backend
from driftline.backends._dynamo import compile_with_dynamo
from driftline.backends._torch import TorchBackend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.core.tensors import Arrays
from driftline.programs import convert
from driftline.programs.opened import OpenedProgram


@register_backend
class PlantedDecomposition(TorchBackend):
    name = "planted-decomposition"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import torch
        from torch._dynamo.backends.common import aot_autograd

        aten = torch.ops.aten
        wrong = {
            aten.cosh.default: lambda x: torch.exp(x) / 2,
            aten.log1p.default: lambda x: torch.log(x),
            aten.erf.default: lambda x: torch.tanh(x),
        }
        backend = aot_autograd(fw_compiler=lambda graph, inputs: graph.forward, decompositions=wrong)
        return compile_with_dynamo(program, backend, options)


@register_backend
class PlantedOptimiser(OnnxRuntime):
    name = "planted-optimiser"
    family = "onnxruntime"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        if options.get("opt") != "off":
            program.data = _replaced(program.model(), {"Atan": "Tanh", "Floor": "Ceil", "Neg": "Abs"})
        return super().compile(program, options)


@register_backend
class SlowRun(OnnxRuntime):
    """Right, and slow: a run takes four seconds."""

    name = "slow-run"
    family = "onnxruntime"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        run = super().compile(program, options)

        def slowly(inputs: Arrays) -> Arrays:
            time.sleep(4.0)
            return run(inputs)

        return slowly


def _replaced(model: Any, operators: dict[str, str]) -> bytes:
    for node in model.graph.node:
        node.op_type = operators.get(node.op_type, node.op_type)
    return bytes(model.SerializeToString())


_honest = convert._export_onnx


def _export_wrongly(program: OpenedProgram, *, flat: bool) -> Any:
    exported = _honest(program, flat=flat)
    for node in exported.model.graph:
        node.op_type = {"Sinh": "Asinh", "Acos": "Asin"}.get(node.op_type, node.op_type)
    return exported


convert._export_onnx = _export_wrongly
