"""Operators of torch that write into their input, some of them through a view.

The result is the input itself, so that programs continue with the written values.
"""

from __future__ import annotations

from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import (
    ALL,
    FLOATS,
    NUMBERS,
    Attributes,
    Draw,
    Form,
    Invalid,
    Need,
    Operator,
    Types,
    Use,
)
from driftline.generate.ops.rules import Drawn, choosing, not_empty, nothing, one_of, replaced, same


def _draw_other(draw: Draw, first: TensorType) -> Drawn:
    return (Need(first.with_shape(draw.broadcastable(first.shape))),), {}


def _fits_first(types: Types, attributes: Attributes) -> Types:
    """Return the type of the first input, to which all others must broadcast."""
    for other in types[1:]:
        tail = types[0].shape[types[0].rank - other.rank :] if other.rank else ()
        if other.rank > types[0].rank or any(a not in (1, b) for a, b in zip(other.shape, tail, strict=True)):
            raise Invalid(f"{other} does not broadcast to {types[0]}")
    return (types[0],)


def _same_dtype(types: Types, attributes: Attributes) -> Types:
    if types[1].dtype != types[0].dtype:
        raise Invalid("the inputs differ in dtype")
    return _fits_first(types, attributes)


def _masked(types: Types, attributes: Attributes) -> Types:
    if types[1].dtype != "bool":
        raise Invalid("a mask is bool")
    return _fits_first(types, attributes)


def _draw_mask(draw: Draw, first: TensorType) -> Drawn:
    return (Need(TensorType("bool", draw.broadcastable(first.shape))),), {"value": draw.choice((0, 1, 3))}


def _draw_copy(draw: Draw, first: TensorType) -> Drawn:
    dtype = draw.choice(("float32", "int32", first.dtype, first.dtype)) if first.dtype in FLOATS else first.dtype
    return (Need(TensorType(dtype, draw.broadcastable(first.shape))),), {}


def _draw_rows(draw: Draw, first: TensorType) -> Drawn:
    count = draw.integer(1, first.shape[0])
    index = TensorType("int64", (count,))
    return (Need(index, f"distinct:{first.shape[0]}"), Need(first.with_shape((count, *first.shape[1:])))), {}


def _rows(types: Types, attributes: Attributes) -> Types:
    if types[1].dtype != "int64" or types[2] != types[0].with_shape((*types[1].shape, *types[0].shape[1:])):
        raise Invalid("the rows do not fit")
    return (types[0],)


def _part(draw: Draw, first: TensorType) -> dict[str, Any]:
    axis = draw.integer(0, first.rank - 1)
    start = draw.integer(0, first.shape[axis] - 1)
    step = draw.choice((1, 1, 2))
    return {"axis": axis, "start": start, "stop": draw.integer(start + 1, first.shape[axis]), "step": step}


def _part_shape(first: TensorType, attributes: Attributes) -> tuple[int, ...]:
    axis = attributes["axis"]
    if axis >= first.rank or attributes["stop"] > first.shape[axis]:
        raise Invalid("there is no such part")
    length = len(range(attributes["start"], attributes["stop"], attributes["step"]))
    return replaced(first.shape, axis, length)


def _draw_assign(draw: Draw, first: TensorType) -> Drawn:
    part = _part(draw, first)
    return (Need(first.with_shape(_part_shape(first, part))),), part


def _assign(types: Types, attributes: Attributes) -> Types:
    if types[1] != types[0].with_shape(_part_shape(types[0], attributes)):
        raise Invalid("what is assigned does not fit the part")
    return (types[0],)


def _draw_part(draw: Draw, first: TensorType) -> Drawn:
    return (), {**_part(draw, first), "number": draw.choice((2, 3))}


def _some_part(types: Types, attributes: Attributes) -> Types:
    _part_shape(types[0], attributes)
    return (types[0],)


def _sliced(u: Use) -> str:
    step = f":{u['step']}" if u["step"] != 1 else ""
    return f"{u.inputs[0]}[{':, ' * u['axis']}{u['start']}:{u['stop']}{step}]"


def _through(view: str) -> Any:
    """Return a form that writes through a view of the input and returns the input. The template `view` creates the view
    and writes."""
    return lambda u: f"({view.format(*u.inputs, **u.attributes)}, {u.inputs[0]})[1]"


def _row(name: str, draw: Any, torch: Any, dtypes: tuple[str, ...], infer: Any = same, **more: Any) -> Operator:
    return Operator(name, infer, draw, Form(torch, dtypes), inplace=True, **more)


_number = choosing(number=one_of(2, 3))

OPERATORS = [
    _row("add_", _draw_other, "{0}.add_({1})", NUMBERS, _same_dtype),
    _row("sub_", _draw_other, "{0}.sub_({1})", NUMBERS, _same_dtype),
    _row("mul_", _draw_other, "{0}.mul_({1})", NUMBERS, _same_dtype),
    _row("add_itself_", nothing, "{0}.add_({0})", NUMBERS),
    _row("copy_", _draw_copy, "{0}.copy_({1})", ALL, _fits_first),
    _row("relu_", nothing, "{0}.relu_()", NUMBERS),
    _row("sigmoid_", nothing, "{0}.sigmoid_()", FLOATS),
    _row("clamp_", nothing, "{0}.clamp_(-1, 2)", tuple(d for d in NUMBERS if d != "uint8")),
    _row("zero_", nothing, "{0}.zero_()", ALL),
    _row("fill_", _number, "{0}.fill_({number})", ALL),
    _row("masked_fill_", _draw_mask, "{0}.masked_fill_({1}, {value})", ALL, _masked),
    _row("index_put_", _draw_rows, "{0}.index_put_(({1},), {2})", ALL, _rows, rank=(1, 4), fits=not_empty),
    _row("index_add_", _draw_rows, "{0}.index_add_(0, {1}, {2})", NUMBERS, _rows, rank=(1, 4), fits=not_empty),
    _row(
        "slice_assign", _draw_assign, lambda u: f"({_sliced(u)}.copy_({u.inputs[1]}), {u.inputs[0]})[1]", ALL, _assign,
        rank=(1, 5), fits=not_empty,
    ),
    _row(
        "slice_mul_", _draw_part, lambda u: f"({_sliced(u)}.mul_({u['number']}), {u.inputs[0]})[1]", NUMBERS,
        _some_part, rank=(1, 5), fits=not_empty,
    ),
    _row(
        "row_assign", _number, _through("{0}.select(0, 0).fill_({number})"), ALL, rank=(1, 5), fits=not_empty,
    ),
    _row("transpose_add_", nothing, _through("{0}.mT.add_(1)"), NUMBERS, rank=(2, 5)),
    _row("diagonal_fill_", _number, _through("{0}.diagonal().fill_({number})"), ALL, rank=(2, 2)),
    _row("flat_write_", nothing, _through("{0}.unsqueeze(0).flatten(0, 1).neg_()"), NUMBERS, rank=(1, 5)),
    _row("split_write_", nothing, _through("{0}.chunk(2, 0)[0].mul_(2)"), NUMBERS, rank=(1, 5), fits=not_empty),
    _row("shift_write_", nothing, _through("{0}[1:].copy_({0}[:-1].clone())"), ALL, rank=(1, 5), fits=not_empty),
]  # fmt: skip
