"""The reference evaluator of the ONNX project, with what is wrong in it set right: it is a witness here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np


def make_evaluator(model: Any, kind: Any = None) -> Any:
    """An evaluator of a loaded model; `kind` is a class derived from `ReferenceEvaluator`."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun
    from onnx.reference.ops.op_gemm import Gemm_7
    from onnx.reference.ops.op_prelu import PRelu as PReluOfOnnx

    class Erf(OpRun):
        """The evaluator's own goes through float32 in every dtype, which no float64 result survives."""

        op_domain = ""

        def _run(self, x: Any) -> tuple[Any]:
            return (np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype),)

    class Gemm(Gemm_7):
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

    class PRelu(PReluOfOnnx):
        """The evaluator's own multiplies zero with the slope, which may be infinite."""

        op_domain = ""

        def _run(self, x: Any, slope: Any) -> tuple[Any]:
            (result,) = super()._run(x, slope)
            return (np.where(x == 0, x, result),)

    corrected = [Erf, Pow, PRelu] + ([Gemm] if _opset(model) >= 7 else [])  # before, Gemm had another signature
    return (kind or ReferenceEvaluator)(_without_empty_outputs(model), new_ops=corrected)


def _opset(model: Any) -> int:
    return max((int(o.version) for o in getattr(model, "opset_import", ()) if o.domain in ("", "ai.onnx")), default=0)


def _without_empty_outputs(model: Any) -> Any:
    """A copy in which outputs that nobody wants have names. The evaluator keeps them under the empty name, where it
    then finds them when an optional input is left out."""
    import onnx

    if not isinstance(model, onnx.ModelProto) or not any(_unnamed(node) for node in _nodes(model)):
        return model
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    for number, node in enumerate(_nodes(copied)):
        node.output[:] = [name or f"unused.{number}.{at}" for at, name in enumerate(node.output)]
    return copied


def _unnamed(node: Any) -> bool:
    return "" in node.output


def _nodes(model: Any) -> Iterator[Any]:
    """Every node, those of subgraphs and functions included."""
    waiting = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    for node in waiting:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting += graph.node
