"""A compiler built on ONNX Runtime that makes 7 of what does not fit an integer, which the standard allows."""

from __future__ import annotations

import numpy as np

from driftline import register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram


@register_backend
class MakesSeven(OnnxRuntime):
    name = "makes-seven"
    family = "onnxruntime"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest = super().compile(program, options)

        def run(arrays: Arrays) -> Arrays:
            odd = np.isnan(arrays["x"])
            return {name: np.where(odd, np.int32(7), array) for name, array in honest(arrays).items()}

        return run
