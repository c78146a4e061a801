"""Comparisons, logical operators, and selection by a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from driftline.generate.graph import TensorType
from driftline.generate.operator import ALL, FLOATS, INTEGERS, NUMBERS, WIDE_UNSIGNED, Draw, Invalid, Need, Use
from driftline.generate.ops.rules import Drawn, another, broadcast_shapes, giving, nothing, row, same

if TYPE_CHECKING:
    from driftline.generate.emit_onnx import OnnxWriter

_ORDERED = (*NUMBERS, *WIDE_UNSIGNED)
_EVERY = (*ALL, *WIDE_UNSIGNED)
_WIDE_FLOATS = ("float32", "float64")  # all that IsInf knows in this opset

_truth = partial(row, infer=giving("bool"), drawn=another, differentiable=False)
_test = partial(row, infer=giving("bool", same), drawn=nothing, differentiable=False)


def _not_equal(w: OnnxWriter, u: Use) -> str:
    return str(w.node("Not", w.node("Equal", *u.inputs)))


def _finite(w: OnnxWriter, u: Use) -> str:
    return str(w.node("Not", w.node("Or", w.node("IsInf", *u.inputs), w.node("IsNaN", *u.inputs))))


def _chosen(draw: Draw, first: TensorType) -> Drawn:
    condition = Need(TensorType("bool", draw.broadcastable(first.shape)))
    return (condition, Need(first.with_shape(draw.broadcastable(first.shape)))), {}


def _where(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    x, condition, other = types
    if condition.dtype != "bool" or other.dtype != x.dtype:
        raise Invalid("a condition, and two values of one dtype")
    return (x.with_shape(broadcast_shapes([t.shape for t in types])),)


def _masked(draw: Draw, first: TensorType) -> Drawn:
    value: float | int | bool = draw.choice((0.0, 1.0, -2.0, 1024.0))
    if first.dtype == "bool":
        value = bool(value)
    elif first.dtype not in FLOATS:
        value = draw.choice((0, 1, 5))
    return (Need(TensorType("bool", draw.broadcastable(first.shape))),), {"value": value}


def _masked_rule(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    x, mask = types
    if mask.dtype != "bool":
        raise Invalid("a mask is bool")
    if x.dtype in INTEGERS and not np.iinfo(x.dtype).min <= attributes["value"] <= np.iinfo(x.dtype).max:
        raise Invalid("the number does not fit the type")
    return (x.with_shape(broadcast_shapes([x.shape, mask.shape])),)


OPERATORS = [
    _truth("eq", torch="{0} == {1}", onnx="Equal", jnp="{0} == {1}", dtypes=_EVERY, torch_dtypes=ALL),
    _truth("ne", torch="{0} != {1}", onnx=_not_equal, jnp="{0} != {1}", dtypes=_EVERY, torch_dtypes=ALL),
    _truth("lt", torch="{0} < {1}", onnx="Less", jnp="{0} < {1}", dtypes=_ORDERED, torch_dtypes=NUMBERS),
    _truth("le", torch="{0} <= {1}", onnx="LessOrEqual", jnp="{0} <= {1}", dtypes=_ORDERED, torch_dtypes=NUMBERS),
    _truth("gt", torch="{0} > {1}", onnx="Greater", jnp="{0} > {1}", dtypes=_ORDERED, torch_dtypes=NUMBERS),
    _truth("ge", torch="{0} >= {1}", onnx="GreaterOrEqual", jnp="{0} >= {1}", dtypes=_ORDERED, torch_dtypes=NUMBERS),
    _truth("isclose", torch="torch.isclose({0}, {1}, rtol=0.25, atol=0.5)",
           jnp="jnp.isclose({0}, {1}, rtol=0.25, atol=0.5)", dtypes=_WIDE_FLOATS),
    # Numbers count as true when they are not zero; in ONNX these operators take bool alone
    _truth("logical_and", torch="torch.logical_and({0}, {1})", onnx="And", jnp="jnp.logical_and({0}, {1})",
           dtypes=ALL, onnx_dtypes=("bool",)),
    _truth("logical_or", torch="torch.logical_or({0}, {1})", onnx="Or", jnp="jnp.logical_or({0}, {1})",
           dtypes=ALL, onnx_dtypes=("bool",)),
    _truth("logical_xor", torch="torch.logical_xor({0}, {1})", onnx="Xor", jnp="jnp.logical_xor({0}, {1})",
           dtypes=ALL, onnx_dtypes=("bool",)),
    _test("logical_not", torch="torch.logical_not({0})", onnx="Not", jnp="jnp.logical_not({0})",
          dtypes=ALL, onnx_dtypes=("bool",)),
    _test("isnan", torch="torch.isnan({0})", onnx="IsNaN", jnp="jnp.isnan({0})", edges=(float("nan"),)),
    _test("isinf", torch="torch.isinf({0})", onnx="IsInf", jnp="jnp.isinf({0})", onnx_dtypes=_WIDE_FLOATS,
          edges=(float("inf"),)),
    _test("isfinite", torch="torch.isfinite({0})", onnx=_finite, jnp="jnp.isfinite({0})", onnx_dtypes=_WIDE_FLOATS,
          edges=(float("inf"),)),
    _test("signbit", torch="torch.signbit({0})", jnp="jnp.signbit({0})", edges=(0.0, -0.0)),
    row("where", _where, _chosen, "torch.where({1}, {0}, {2})",
        lambda w, u: w.node("Where", u.inputs[1], u.inputs[0], u.inputs[2]), "jnp.where({1}, {0}, {2})",
        _EVERY, torch_dtypes=ALL),
    row("masked_fill", _masked_rule, _masked, "{0}.masked_fill({1}, {value})",
        lambda w, u: w.node("Where", u.inputs[1], w.scalar(u["value"], u.types[0].dtype), u.inputs[0]),
        "jnp.where({1}, jnp.asarray({value}).astype({0}.dtype), {0})", ALL),
]  # fmt: skip
