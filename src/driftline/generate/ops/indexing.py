"""Selecting and writing elements by a tensor of indices; triangles and diagonals.

Where two elements could be written to one place, the indices are distinct or the elements are combined by an operation
that does not depend on the order: languages leave all other results undefined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import (
    ALL,
    COMPLEX,
    INTEGERS,
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
from driftline.generate.ops.rules import MOVED, MOVED_REAL, Drawn, choosing, normal_axis, not_empty, replaced

_KNOWN = (*ALL, *COMPLEX)  # torch has no kernels for wide unsigned integers here


def _index(shape: Sequence[int]) -> TensorType:
    return TensorType("int64", tuple(shape))


def _is_index(given: TensorType) -> None:
    if given.dtype not in ("int64", "int32"):
        raise Invalid("indices are integers")


def _short(first: TensorType) -> list[int]:
    # The reference evaluator of GatherElements chooses between at most so many
    return [axis for axis, size in enumerate(first.shape) if 1 <= size <= 31]


def _draw_gather(draw: Draw, first: TensorType) -> Drawn:
    axis = draw.choice(_short(first)) - draw.choice((0, first.rank))
    shape = replaced(first.shape, axis % first.rank, draw.integer(1, 6))
    return (Need(_index(shape), f"index:{first.shape[axis]}"),), {"axis": axis}


def _gather(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    _is_index(types[1])
    if types[1].rank != types[0].rank or replaced(types[1].shape, axis) != replaced(types[0].shape, axis):
        raise Invalid("the indices do not fit")
    return (types[0].with_shape(types[1].shape),)


def _draw_index_select(draw: Draw, first: TensorType) -> Drawn:
    axis = draw.axis(first.rank)
    index = TensorType(draw.choice(("int64", "int32")), (draw.integer(1, 6),))
    return (Need(index, f"index:{first.shape[axis]}"),), {"axis": axis}


def _draw_wrapped(draw: Draw, first: TensorType) -> Drawn:
    axis = draw.integer(0, first.rank - 1)
    index = _index([draw.integer(1, 4) for _ in range(draw.integer(0, 2))])
    return (Need(index, f"wrapped:{first.shape[axis]}"),), {"axis": axis}


def _index_select(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    _is_index(types[1])
    return (types[0].with_shape(replaced(types[0].shape, axis, *types[1].shape)),)


def _one_axis_select(types: Types, attributes: Attributes) -> Types:
    if types[1].rank != 1:
        raise Invalid("the indices are a vector")
    return _index_select(types, attributes)


def _draw_embedding(draw: Draw, first: TensorType) -> Drawn:
    index = TensorType(draw.choice(("int64", "int32")), tuple(draw.integer(1, 5) for _ in range(draw.integer(1, 2))))
    return (Need(index, f"index:{first.shape[0]}"),), {}


def _embedding(types: Types, attributes: Attributes) -> Types:
    return _index_select(types, {"axis": 0})


def _draw_take(draw: Draw, first: TensorType) -> Drawn:
    return (Need(_index(draw.shape(0, 2, 16)), f"index:{first.size}"),), {}


def _take(types: Types, attributes: Attributes) -> Types:
    _is_index(types[1])
    return (types[0].with_shape(types[1].shape),)


def _draw_gather_nd(draw: Draw, first: TensorType) -> Drawn:
    """Choose rows of coordinates for the first axes, all below the smallest of their sizes."""
    width = draw.integer(1, min(first.rank, 3))
    index = _index((*(draw.integer(1, 4) for _ in range(draw.integer(1, 2))), width))
    return (Need(index, f"wrapped:{min(first.shape[:width])}"),), {}


def _gather_nd(types: Types, attributes: Attributes) -> Types:
    _is_index(types[1])
    width = types[1].shape[-1] if types[1].rank else 0
    if not 1 <= width <= types[0].rank:
        raise Invalid("as many coordinates as axes, or fewer")
    return (types[0].with_shape((*types[1].shape[:-1], *types[0].shape[width:])),)


def _coordinates(u: Use) -> str:
    return ", ".join(f"{u.inputs[1]}[..., {at}]" for at in range(u.types[1].shape[-1]))


def _draw_scatter(distinct: bool) -> Any:
    def drawn(draw: Draw, first: TensorType) -> Drawn:
        # Distinct numbers lie along the last axis; elsewhere two may fall on one place
        axis = -1 if distinct else draw.axis(first.rank)
        size = first.shape[axis]
        shape = replaced(first.shape, axis % first.rank, draw.integer(1, size if distinct else 6))
        word = "distinct" if distinct else "index"
        return (Need(_index(shape), f"{word}:{size}"), Need(first.with_shape(shape))), {"axis": axis}

    return drawn


def _scatter(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    _is_index(types[1])
    if types[1].shape != types[2].shape or types[2].dtype != types[0].dtype or types[1].rank != types[0].rank:
        raise Invalid("the indices or the source do not fit")
    if replaced(types[1].shape, axis) != replaced(types[0].shape, axis):
        raise Invalid("the indices do not fit")
    return (types[0],)


def _onnx_scatter(reduction: str) -> Any:
    return lambda w, u: w.node("ScatterElements", *u.inputs, axis=u["axis"], reduction=reduction)


def _jnp_scatter(method: str) -> Any:
    """Return a form that indexes with one array for each axis."""

    def emit(u: Use) -> str:
        axis = u["axis"] % u.types[0].rank
        places = []
        for at, size in enumerate(u.types[1].shape):
            along = [1] * u.types[1].rank
            along[at] = size
            places.append(u.inputs[1] if at == axis else f"jnp.arange({size}).reshape({along})")
        return f"{u.inputs[0]}.at[{', '.join(places)}].{method}({u.inputs[2]})"

    return emit


def _draw_rows(distinct: bool) -> Any:
    def drawn(draw: Draw, first: TensorType) -> Drawn:
        axis = draw.axis(first.rank)
        size = first.shape[axis]
        count = draw.integer(1, size if distinct else 6)
        rows = first.with_shape(replaced(first.shape, axis % first.rank, count))
        return (Need(_index((count,)), f"{'distinct' if distinct else 'index'}:{size}"), Need(rows)), {"axis": axis}

    return drawn


def _rows(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    _is_index(types[1])
    if types[2] != types[0].with_shape(replaced(types[0].shape, axis, *types[1].shape)) or types[1].rank != 1:
        raise Invalid("the rows do not fit")
    return (types[0],)


def _int64_index(w: Any, u: Use) -> str:
    """Return the indices as int64, the only type that ScatterND and GatherND accept (unlike ScatterElements and
    Gather)."""
    name: str = u.inputs[1]
    return name if u.types[1].dtype == "int64" else w.cast(name, "int64")


def _onnx_rows(reduction: str) -> Any:
    """Return a form that writes rows along any axis, by transposing: ScatterND writes along the first axis only."""

    def emit(w: Any, u: Use) -> Any:
        axis, rank = u["axis"] % u.types[0].rank, u.types[0].rank
        places = w.node("Unsqueeze", _int64_index(w, u), w.ints([1]))
        front = [axis, *(other for other in range(rank) if other != axis)]
        back = [front.index(at) for at in range(rank)]
        data, rows = u.inputs[0], u.inputs[2]
        if axis:
            data, rows = (w.node("Transpose", value, perm=front) for value in (data, rows))
        made = w.node("ScatterND", data, places, rows, reduction=reduction)
        return w.node("Transpose", made, perm=back) if axis else made

    return emit


def _jnp_rows(method: str) -> Any:
    def emit(u: Use) -> str:
        colons = ":, " * (u["axis"] % u.types[0].rank)
        return f"{u.inputs[0]}.at[{colons}{u.inputs[1]}].{method}({u.inputs[2]})"

    return emit


def _draw_index_put(draw: Draw, first: TensorType) -> Drawn:
    count = draw.integer(1, first.shape[0])
    return (Need(_index((count,)), f"distinct:{first.shape[0]}"), Need(first.with_shape((count, *first.shape[1:])))), {
        "axis": 0
    }


def _draw_fill(draw: Draw, first: TensorType) -> Drawn:
    axis = draw.axis(first.rank)
    return (Need(_index((draw.integer(1, 4),)), f"index:{first.shape[axis]}"),), {"axis": axis, "value": 1}


def _fill(types: Types, attributes: Attributes) -> Types:
    _one_axis_select(types, attributes)
    return (types[0],)


def _one_hot(types: Types, attributes: Attributes) -> Types:
    return (TensorType("int64", (*types[0].shape, attributes["depth"])),)


def _draw_diagonal(draw: Draw, first: TensorType) -> Drawn:
    one, other = draw.rng.sample(range(first.rank), 2)
    offset = draw.integer(-min(2, first.shape[one] - 1), min(2, first.shape[other] - 1))
    return (), {"offset": offset, "one": one, "other": other}


def _diagonal(types: Types, attributes: Attributes) -> Types:
    shape = types[0].shape
    one, other = (normal_axis(attributes[name], types[0].rank) for name in ("one", "other"))
    offset = attributes["offset"]
    length = min(shape[one] + min(offset, 0), shape[other] - max(offset, 0))
    if one == other or length < 1:
        raise Invalid("there is no such diagonal")
    rest = (size for axis, size in enumerate(shape) if axis not in (one, other))
    return (types[0].with_shape((*rest, length)),)


def _onnx_diagonal(w: Any, u: Use) -> Any:
    """Take a diagonal: transpose the two axes to the front, gather by coordinates, and move the diagonal to the end."""
    rank, length = u.types[0].rank, u.outputs[0].shape[-1]
    one, other, offset = u["one"], u["other"], u["offset"]
    front = [one, other, *(axis for axis in range(rank) if axis not in (one, other))]
    places = [[at - min(offset, 0), at + max(offset, 0)] for at in range(length)]
    index = w.node("Reshape", w.ints([place for pair in places for place in pair]), w.ints([length, 2]))
    made = w.node("GatherND", w.node("Transpose", u.inputs[0], perm=front), index)
    return w.node("Transpose", made, perm=[*range(1, rank - 1), 0]) if rank > 2 else made


def _diag(types: Types, attributes: Attributes) -> Types:
    size = types[0].size + abs(attributes["offset"])
    return (types[0].with_shape((size, size)),)


def _triangle(types: Types, attributes: Attributes) -> Types:
    if types[0].rank < 2:
        raise Invalid("a triangle is part of a matrix")
    return (types[0],)


def _onnx_triangle(upper: int) -> Any:
    return lambda w, u: w.node("Trilu", *u.inputs, w.scalar(u["diagonal"], "int64"), upper=upper)


_diagonal_number = choosing(diagonal=lambda draw, first: draw.integer(-3, 3))

OPERATORS = [
    Operator(
        "gather", _gather, _draw_gather,
        Form("torch.gather({0}, {axis}, {1})", _KNOWN),
        Form(lambda w, u: w.node("GatherElements", *u.inputs, axis=u["axis"] % u.types[0].rank), MOVED_REAL),
        Form("jnp.take_along_axis({0}, {1}, axis={axis})", MOVED),
        rank=(1, 4), fits=lambda first: first.size > 0 and bool(_short(first)),
    ),
    Operator(
        "index_select", _one_axis_select, _draw_index_select,
        Form("torch.index_select({0}, {axis}, {1})", _KNOWN),
        Form(lambda w, u: w.node("Gather", *u.inputs, axis=u["axis"]), MOVED_REAL),
        Form("jnp.take({0}, {1}, axis={axis})", MOVED), rank=(1, 4), fits=not_empty,
    ),
    Operator(
        "index_wrapped", _index_select, _draw_wrapped,
        Form(lambda u: f"{u.inputs[0]}[{':, ' * u['axis']}{u.inputs[1]}]", MOVED),
        Form(lambda w, u: w.node("Gather", *u.inputs, axis=u["axis"]), MOVED_REAL),
        Form(lambda u: f"{u.inputs[0]}[{':, ' * u['axis']}{u.inputs[1]}]", MOVED), rank=(1, 4), fits=not_empty,
    ),
    Operator(
        "embedding", _embedding, _draw_embedding,
        Form("F.embedding({1}, {0})", MOVED), Form("Gather", MOVED_REAL), Form("{0}[{1}]", MOVED),
        rank=(2, 2), fits=not_empty,
    ),
    Operator(
        "take", _take, _draw_take,
        Form("torch.take({0}, {1})", _KNOWN),
        Form(lambda w, u: w.node("Gather", w.node("Reshape", u.inputs[0], w.ints([-1])), u.inputs[1]), MOVED_REAL),
        Form("jnp.take({0}, {1})", MOVED), fits=not_empty,
    ),
    Operator(
        "gather_nd", _gather_nd, _draw_gather_nd,
        Form(lambda u: f"{u.inputs[0]}[{_coordinates(u)}]", MOVED),
        Form(lambda w, u: w.node("GatherND", u.inputs[0], _int64_index(w, u)), MOVED_REAL),
        Form(lambda u: f"{u.inputs[0]}[{_coordinates(u)}]", MOVED), rank=(1, 4), fits=not_empty,
    ),
    Operator(
        "scatter", _scatter, _draw_scatter(distinct=True),
        Form("torch.scatter({0}, {axis}, {1}, {2})", _KNOWN), Form(_onnx_scatter("none"), MOVED_REAL),
        Form(_jnp_scatter("set"), MOVED), rank=(1, 4), fits=not_empty,
    ),
    Operator(
        "scatter_add", _scatter, _draw_scatter(distinct=False),
        Form("torch.scatter_add({0}, {axis}, {1}, {2})", NUMBERS), Form(_onnx_scatter("add"), NUMBERS),
        Form(_jnp_scatter("add"), NUMBERS), rank=(1, 4), fits=not_empty,
    ),
    Operator(
        "scatter_mul", _scatter, _draw_scatter(distinct=False),
        Form("torch.scatter_reduce({0}, {axis}, {1}, {2}, 'prod')", NUMBERS), Form(_onnx_scatter("mul"), NUMBERS),
        Form(_jnp_scatter("multiply"), NUMBERS), rank=(1, 4), fits=not_empty,
    ),
    Operator(
        "scatter_amax", _scatter, _draw_scatter(distinct=False),
        Form("torch.scatter_reduce({0}, {axis}, {1}, {2}, 'amax')", NUMBERS), Form(_onnx_scatter("max"), NUMBERS),
        Form(_jnp_scatter("max"), NUMBERS), rank=(1, 4), fits=not_empty,
    ),
    Operator(
        "scatter_amin", _scatter, _draw_scatter(distinct=False),
        Form("torch.scatter_reduce({0}, {axis}, {1}, {2}, 'amin')", NUMBERS), Form(_onnx_scatter("min"), NUMBERS),
        Form(_jnp_scatter("min"), NUMBERS), rank=(1, 4), fits=not_empty,
    ),
    Operator(
        "index_add", _rows, _draw_rows(distinct=False),
        Form("torch.index_add({0}, {axis}, {1}, {2})", NUMBERS), Form(_onnx_rows("add"), NUMBERS),
        Form(_jnp_rows("add"), NUMBERS), rank=(1, 4), fits=not_empty,
    ),
    Operator(
        "index_copy", _rows, _draw_rows(distinct=True),
        Form("torch.index_copy({0}, {axis}, {1}, {2})", _KNOWN), Form(_onnx_rows("none"), MOVED_REAL),
        Form(_jnp_rows("set"), MOVED), rank=(1, 4), fits=not_empty,
    ),
    Operator(
        "index_put", _rows, _draw_index_put,
        Form("torch.index_put({0}, ({1},), {2})", _KNOWN), Form(_onnx_rows("none"), MOVED_REAL),
        Form(_jnp_rows("set"), MOVED), rank=(1, 4), fits=not_empty,
    ),
    Operator(
        "index_fill", _fill, _draw_fill,
        Form("torch.index_fill({0}, {axis}, {1}, {value})", _KNOWN), None,
        Form(
            lambda u: (
                f"{u.inputs[0]}.at[{':, ' * (u['axis'] % u.types[0].rank)}{u.inputs[1]}]"
                f".set(jnp.asarray({u['value']}, {u.inputs[0]}.dtype))"
            ),
            MOVED,
        ),
        rank=(1, 4), fits=not_empty,
    ),
    Operator(
        "one_hot", _one_hot, choosing(depth=lambda draw, first: draw.integer(5, 8)),
        Form("F.one_hot({0}, {depth})", ("int64",)),
        Form(
            lambda w, u: w.node("OneHot", *u.inputs, w.scalar(u["depth"], "int64"), w.ints([0, 1])),
            ("int64", "int32", "uint8"),
        ),
        Form("jax.nn.one_hot({0}, {depth}, dtype=jnp.int64)", INTEGERS),
        rank=(1, 3), first_values="index:5", differentiable=False,
    ),
    Operator(
        "diagonal", _diagonal, _draw_diagonal,
        Form("torch.diagonal({0}, {offset}, {one}, {other})", MOVED), Form(_onnx_diagonal, MOVED_REAL),
        Form("jnp.diagonal({0}, {offset}, {one}, {other})", MOVED), rank=(2, 4), fits=not_empty, view=True,
    ),
    Operator(
        "diag", _diag, choosing(offset=lambda draw, first: draw.integer(-2, 2)),
        Form("torch.diag({0}, {offset})", _KNOWN), None, Form("jnp.diag({0}, {offset})", MOVED),
        rank=(1, 1), fits=lambda first: 1 <= first.size <= 32,
    ),
    Operator(
        "tril", _triangle, _diagonal_number,
        Form("torch.tril({0}, {diagonal})", _KNOWN), Form(_onnx_triangle(0), MOVED_REAL),
        Form("jnp.tril({0}, {diagonal})", MOVED), rank=(2, 5),
    ),
    Operator(
        "triu", _triangle, _diagonal_number,
        Form("torch.triu({0}, {diagonal})", _KNOWN), Form(_onnx_triangle(1), MOVED_REAL),
        Form("jnp.triu({0}, {diagonal})", MOVED), rank=(2, 5),
    ),
]  # fmt: skip
