"""Operators of the ONNX project's reference evaluator, set right where they depart from the standard."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_gather_elements as onnx_gather
from onnx.reference.ops import op_gemm as onnx_gemm


class Erf(OpRun):
    """The evaluator's own goes through float32 in every dtype, which no float64 result survives."""

    op_domain = ""

    def _run(self, x: Any) -> tuple[Any]:
        return (np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype),)


class Gemm(onnx_gemm.Gemm_7):
    """The evaluator's own multiplies integers with its float `alpha`: what float64 cannot hold is lost."""

    op_domain = ""

    def _run(self, a: Any, b: Any, c: Any = None, alpha: Any = 1.0, beta: Any = 1.0, **flags: Any) -> tuple[Any]:
        if a.dtype.kind in "iu" and float(alpha).is_integer() and float(beta).is_integer():
            alpha, beta = (np.array(int(factor)).astype(a.dtype) for factor in (alpha, beta))
        (result,) = super()._run(a, b, c, alpha, beta, **flags)
        return (result,)


class Pow(OpRun):
    """The evaluator's own takes a root where the exponent is a scalar of one half: the power of -inf is inf."""

    op_domain = ""

    def _run(self, a: Any, b: Any) -> tuple[Any]:
        shape = np.broadcast_shapes(np.shape(a), np.shape(b))
        exponents = np.broadcast_to(b, shape or (1,)).copy()  # numpy knows a scalar by its strides
        with np.errstate(all="ignore"):
            return (np.power(a, exponents).astype(a.dtype).reshape(shape),)


class GatherElements(onnx_gather.GatherElements):
    """The evaluator's own takes an index that is out of range round and round."""

    op_domain = ""

    def _run(self, data: Any, indices: Any, axis: Any = None) -> tuple[Any]:
        size = data.shape[axis or 0]
        if indices.size and not (-size <= indices.min() and indices.max() < size):
            raise IndexError(f"an index is out of range: the axis has {size} elements")
        (result,) = super()._run(data, indices, axis)
        return (result,)


def corrected(opset: int) -> list[type[OpRun]]:
    """Those to be used in a model of this version of the standard: before the seventh, Gemm had another form."""
    return [Erf, GatherElements, Pow, *([Gemm] if opset >= 7 else [])]
