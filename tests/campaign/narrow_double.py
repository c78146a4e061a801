"""A compiler for tests: ONNX Runtime, but float64 results have the digits of float32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftline.backends import register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.onnxruntime import OnnxRuntime
from driftline.core.tensors import Array, Arrays
from driftline.generate import register_generator
from driftline.generate.random_graph import RandomGraph
from driftline.programs.opened import OpenedProgram


@register_backend
class NarrowDouble(OnnxRuntime):
    name = "narrow-double"
    batch = 15

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        compiled = super().compile(program, options)
        return lambda arrays: narrowed(compiled(arrays))


def narrowed(arrays: Arrays) -> Arrays:
    with np.errstate(all="ignore"):
        return {name: _narrow(array) if array.dtype == np.float64 else array for name, array in arrays.items()}


def _narrow(array: Array) -> Array:
    short = array.astype(np.float32).astype(np.float64)
    return np.where(np.isfinite(short), short, array)


@register_generator
class Plain(RandomGraph):
    """Random programs about a few operators."""

    name = "plain"

    def arms(self, form: str) -> Sequence[str]:
        return ["add", "neg", "sqrt"]
