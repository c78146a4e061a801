"""Compilers for tests: the ONNX project's evaluator, but products leave out their last term, those of Gemm as those of
MatMul; one of them adds 1 to what comes of a Gemm besides."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from driftline.backends import register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnx_reference import OnnxReference
from driftline.core.tensors import Arrays
from driftline.programs.onnx.evaluator import make_evaluator
from driftline.programs.opened import OpenedProgram


@register_backend
class FaultyProducts(OnnxReference):
    name = "faulty-products"
    reference = False
    more: ClassVar[int] = 0  # in a Gemm

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        evaluator = make_evaluator(program.model())
        for node in evaluator.rt_nodes_:
            if node.op_type in ("MatMul", "Gemm"):
                node.run = _faulty(node.run, self.more if node.op_type == "Gemm" else 0)

        def run(arrays: Arrays) -> Arrays:
            feed = {name: arrays[name] for name in evaluator.input_names}
            return dict(zip(evaluator.output_names, evaluator.run(None, feed), strict=True))

        return run


@register_backend
class FaultyGemm(FaultyProducts):
    name = "faulty-gemm"
    more = 1


def _faulty(honest: Any, more: int) -> Any:
    def run(left: Any, *others: Any, **options: Any) -> Any:
        cut = np.array(left)
        cut[..., -1:] = 0
        (result,) = honest(cut, *others, **options)
        return (result + result.dtype.type(more),)

    return run
