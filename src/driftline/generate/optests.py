"""The generator `optests`: the operator tests of the frameworks, one by one and in pairs.

PyTorch's `OpInfo` samples and ONNX's node tests contain arguments that the operator table would not generate. They were
written for the framework's own kernels, so compilers have rarely been tested with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from driftline.generate.base import Blueprint, Generator, GeneratorRequest, NoProgram


class OperatorTests(Generator):
    """Arms are operators, and `pairs`: the result of one operator's test is the input of another operator."""

    name = "optests"
    slow_start = True
    forms: ClassVar[tuple[str, ...]] = ("torch", "onnx")

    def arms(self, form: str) -> Sequence[str]:
        if form == "torch":
            from driftline.generate.optests_torch import torch_arms

            return torch_arms()
        if form == "onnx":
            from driftline.generate.optests_onnx import onnx_arms

            return onnx_arms()
        return ()

    def make(self, request: GeneratorRequest) -> Blueprint:
        seed = f"{request.seed}/{request.number}"
        if request.form == "torch":
            from driftline.generate.optests_torch import make_torch

            return make_torch(request.arm, seed, request.avoid)
        if request.form == "onnx":
            from driftline.generate.optests_onnx import make_onnx

            return make_onnx(request.arm, seed, request.avoid)
        raise NoProgram(f"there are no operator tests in the form {request.form}")
