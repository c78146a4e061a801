"""Arithmetic with a Python number, and with tensors of different dtypes.

A number does not change the dtype of a tensor of the same kind. Between tensors the rules of torch have no counterpart
in ONNX, so mixed dtypes are for torch only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import ALL, FLOATS, INTEGERS, NUMBERS, Draw, Invalid, Need, Use
from driftline.generate.ops.rules import (
    Drawn,
    broadcast,
    broadcast_shapes,
    choosing,
    more_of,
    one_of,
    row,
    same,
    same_with,
)

if TYPE_CHECKING:
    from driftline.generate.emit_onnx import OnnxWriter

_SAME = same_with("scalar")
_HALF_OPEN = (0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0)


def _scalar(draw: Draw, first: TensorType) -> Drawn:
    """Choose a neutral element, its negative, or another number that compilers fold."""
    if first.dtype in FLOATS:
        return (), {"scalar": draw.choice(_HALF_OPEN)}
    return (), {"scalar": draw.choice((0, 1, 2, 3, 7) if first.dtype.startswith("u") else (0, 1, -1, 2, 3, -7))}


def _with_scalar(kind: str, first: bool = False) -> Any:
    def emit(w: OnnxWriter, u: Use) -> str:
        scalar = w.scalar(u["scalar"], u.types[0].dtype)
        return str(w.node(kind, scalar, u.inputs[0]) if first else w.node(kind, u.inputs[0], scalar))

    return emit


def _min_max(w: OnnxWriter, u: Use) -> str:
    x, low, high = u.inputs
    return str(w.node("Min", w.node("Max", x, low), high))


_RANK = {"bool": 0, **dict.fromkeys(INTEGERS, 1), **dict.fromkeys(FLOATS, 2)}
_WIDTH = {"int64": 64, "int32": 32, "int16": 16, "int8": 8, "uint8": 8, "float64": 64, "float32": 32}


def promote(one: str, two: str) -> str:
    """Return the dtype of a sum in torch, if both operands have axes."""
    if one == two:
        return one
    if _RANK[one] != _RANK[two]:
        return one if _RANK[one] > _RANK[two] else two
    if {one, two} == {"float16", "bfloat16"}:
        return "float32"
    if {one, two} == {"int8", "uint8"}:
        return "int16"
    return max(one, two, key=lambda dtype: _WIDTH.get(dtype, 16) * 2 + (dtype != "uint8"))


def promoted(one: TensorType, two: TensorType) -> str:
    """Return the dtype of a sum in torch. A 0-d tensor takes the dtype of the other operand, unless its kind is
    higher."""
    if bool(one.rank) == bool(two.rank) or _RANK[one.dtype] != _RANK[two.dtype]:
        return promote(one.dtype, two.dtype)
    return one.dtype if one.rank else two.dtype


def _mixed(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    shape = broadcast_shapes([t.shape for t in types])
    return (TensorType(promoted(*types), shape),)


def _mixed_floats(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    """Return the type of a true division: integers become the default float."""
    (made,) = _mixed(types, attributes)
    return (made if made.dtype in FLOATS else made.with_dtype("float32"),)


def _mixed_where(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    *values, condition = types
    if condition.dtype != "bool":
        raise Invalid("a condition is bool")
    return (TensorType(promoted(*values), broadcast_shapes([t.shape for t in types])),)


def _other_dtype(draw: Draw, first: TensorType) -> Drawn:
    dtype = draw.choice([name for name in ALL if name != first.dtype])
    return (Need(TensorType(dtype, draw.broadcastable(first.shape))),), {}


OPERATORS = [
    row("add_scalar", _SAME, _scalar, "{0} + {scalar}", _with_scalar("Add"), "{0} + {scalar}", NUMBERS),
    row("sub_scalar", _SAME, _scalar, "{0} - {scalar}", _with_scalar("Sub"), "{0} - {scalar}", NUMBERS),
    row("rsub_scalar", _SAME, _scalar, "{scalar} - {0}", _with_scalar("Sub", first=True), "{scalar} - {0}", NUMBERS),
    row("mul_scalar", _SAME, _scalar, "{0} * {scalar}", _with_scalar("Mul"), "{0} * {scalar}", NUMBERS),
    row("div_scalar", same, choosing(scalar=one_of(1.0, -1.0, 2.0, 0.5, 3.0, 0.0)), "{0} / {scalar}",
        _with_scalar("Div"), "{0} / {scalar}"),
    # torch multiplies by the reciprocal: 0.0 would meet an infinite one
    row("rdiv_scalar", same, choosing(scalar=one_of(1.0, -1.0, 2.0, 4.0)), "{scalar} / {0}",
        _with_scalar("Div", first=True), "{scalar} / {0}", edges=(0.0,)),
    row("pow_scalar", same, choosing(scalar=one_of(2.0, 3.0, 0.5, -1.0, 0.0, 1.0, -2.0, -0.5, 4.0)),
        "{0} ** {scalar}", _with_scalar("Pow"), "{0} ** {scalar}", edges=(0.0,)),
    row("rpow_scalar", same, choosing(scalar=one_of(2.0, 0.5, 1.0, 3.0)), "{scalar} ** {0}",
        _with_scalar("Pow", first=True), "{scalar} ** {0}"),
    row("clamp_tensors", broadcast, more_of(2), "torch.clamp({0}, {1}, {2})", _min_max,
        "jnp.minimum(jnp.maximum({0}, {1}), {2})", NUMBERS),
    row("add_mixed", _mixed, _other_dtype, "{0} + {1}", dtypes=ALL),
    row("mul_mixed", _mixed, _other_dtype, "{0} * {1}", dtypes=ALL),
    row("div_mixed", _mixed_floats, _other_dtype, "{0} / {1}", dtypes=ALL),
    row("where_mixed", _mixed_where,
        lambda draw, first: ((*_other_dtype(draw, first)[0], Need(TensorType("bool", first.shape))), {}),
        "torch.where({2}, {0}, {1})", dtypes=ALL),
]  # fmt: skip
