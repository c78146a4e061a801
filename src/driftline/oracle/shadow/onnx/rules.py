"""Classify each ONNX operator for the noise model: exact, pointwise, transcendental or a sum.

Compositions are not listed here: those that the ONNX standard defines as functions are replaced by their parts before
the graph is executed (`onnx/parts.py`), others are executed step by step (`onnx/composites.py`). For an operator in no
list a generous rule is used, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from driftline.core.tensors import Array, numpy_dtype
from driftline.oracle.noise import Joint, stored, together, transcendental
from driftline.oracle.shadow.call import Call
from driftline.oracle.shadow.onnx.sums import JOINT, SUMS, generous

# Operators that move, choose or step: their results are exact for the given arguments.
EXACT = {
    # moving
    "CenterCropPad", "Compress", "Concat", "ConcatFromSequence", "Constant", "ConstantOfShape", "DepthToSpace",
    "Dropout", "Expand", "EyeLike", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "MaxUnpool",
    "OneHot", "Optional", "OptionalGetElement", "OptionalHasElement", "Pad", "Reshape", "ReverseSequence", "SequenceAt",
    "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "Shape",
    "Size", "Slice", "SpaceToDepth", "Split", "SplitToSequence", "Squeeze", "TensorScatter", "Tile", "Transpose",
    "Trilu", "Unsqueeze", "Where", "BitCast", "Scatter", "Upsample",
    # choosing
    "Abs", "ArgMax", "ArgMin", "Clip", "GlobalMaxPool", "Hardmax", "Max", "MaxPool", "MaxRoiPool", "Min", "Neg",
    "NonMaxSuppression", "ReduceMax", "ReduceMin", "Relu", "ThresholdedRelu", "TopK", "Unique",
    # stepping
    "And", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Ceil", "Equal", "Floor", "Greater",
    "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual", "Mod", "NonZero", "Not", "Or", "QLinearConv",
    "QLinearMatMul", "QuantizeLinear", "Round", "Sign", "Xor", "ConvInteger", "MatMulInteger",
}  # fmt: skip

POINTWISE = {"Add", "DequantizeLinear", "Div", "LeakyRelu", "Mul", "PRelu", "Reciprocal", "Shrink", "Softsign", "Sub"}

TRANSCENDENTAL = {
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Erf", "Exp", "Log", "Pow", "Sin", "Sinh", "Sqrt",
    "Tan", "Tanh",
}  # fmt: skip


ROOTS = {"Pow", "Sqrt"}  # not affected by a fast exponential
EXPONENTIAL = (TRANSCENDENTAL - ROOTS) | {
    "Celu", "Elu", "GRU", "Gelu", "LSTM", "LogSoftmax", "Mish", "RNN", "ReduceLogSumExp", "Selu", "Sigmoid", "Softmax",
    "Softplus",
}  # fmt: skip


def _one(call: Call) -> Array | float:
    return 1.0


def _negative_side(name: str, default: float) -> Callable[[Call], Array]:
    """Return a rule for exp(x) - 1 on the negative side, where numbers as large as one are rounded; zero on the
    positive side."""

    def size(call: Call) -> Array:
        alpha = call.kwargs.get(name)
        return np.where(call.args[0] < 0, abs(default if alpha is None else alpha), 0.0)

    return size


FAST_THROUGH_ONE = {"Erf", "Tanh"}  # coarse implementations have no relative accuracy near zero
# Functions whose textbook formula uses a number larger than the result, whose rounding error remains: sigmoid as 1/2 +
# tanh(x/2)/2, softplus as log(1 + exp(x)), elu as exp(x) - 1.
THROUGH: dict[str, Callable[[Call], Any]] = {
    "Sigmoid": _one,
    "Softplus": _one,
    "Elu": _negative_side("alpha", 1.0),
    "Celu": _negative_side("alpha", 1.0),
    "Selu": _negative_side("alpha", 1.6732632),
    "BlackmanWindow": _one,
    "HammingWindow": _one,
    "HannWindow": _one,
}


def is_exact(name: str, attributes: dict[str, Any]) -> bool:
    """True if the operator does not round. Casts are handled elsewhere: they round when the new type is coarser."""
    if name in ("ScatterElements", "ScatterND"):
        return attributes.get("reduction", "none") in (None, "none", "max", "min")
    if name in ("Resize", "Upsample"):
        return attributes.get("mode") in (None, "nearest")
    if name == "GridSample":
        return attributes.get("mode") == "nearest"
    return name in EXACT


# Correctly rounded in every implementation, so exact where the stored type can represent the result.
_CORRECTLY_ROUNDED = {"Add", "Cast", "CastLike", "Div", "Mul", "Sub"}


def came_out_exact(call: Call) -> bool:
    """True if a correctly rounded operation had nothing to round.

    Such results must not be disturbed: sizes computed in floats, powers of two and constant exponents must stay exact
    for the rest of the graph.
    """
    if str(call.target.op_type) not in _CORRECTLY_ROUNDED or call.dtypes[0] is None:
        return False
    result = call.results[0]
    parts = (result.real, result.imag) if result.dtype.kind == "c" else (result,)
    kept = numpy_dtype(call.arithmetic.computed(call.dtypes[0]))
    with np.errstate(all="ignore"):
        return all(np.array_equal(part.astype(kept).astype(part.dtype), part) for part in parts)


def amplitudes(call: Call) -> tuple[list[Array | None], bool]:
    """Return the size of the rounding error of each result, and whether a specific rule was found for the operator."""
    name = str(call.target.op_type)
    if came_out_exact(call):
        return [None], True
    arithmetic = call.arithmetic.with_exact_roots if name in ROOTS else call.arithmetic
    rule = SUMS.get(name)
    known = bool(rule) or name in POINTWISE or name in TRANSCENDENTAL or name in THROUGH or name in ("Cast", "CastLike")
    sums = rule(call) if rule else ()
    sizes: list[Array | None] = []
    for index, (result, dtype) in enumerate(zip(call.results, call.dtypes, strict=True)):
        if dtype is None:
            sizes.append(None)
            continue
        functional = name in TRANSCENDENTAL or name in THROUGH
        size = (
            transcendental(result, arithmetic, dtype, through_one=name in FAST_THROUGH_ONE)
            if functional
            else stored(result, arithmetic, dtype)
        ) + arithmetic.tiny(dtype)
        if name in THROUGH:
            size = size + arithmetic.transcendental(dtype) * THROUGH[name](call)
        if rule and index < len(sums):
            size = together(size, sums[index])
        elif not known:
            size = together(size, generous(call, index))
        sizes.append(np.asarray(size))
    return sizes, known


def joint_errors(call: Call) -> Joint | None:
    """Return the errors that are correlated between elements of the result, or `None`."""
    rule = JOINT.get(str(call.target.op_type))
    return rule(call) if rule and call.dtypes[0] else None
