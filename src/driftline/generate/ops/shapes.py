"""Operators that change the shape or order of values: reshapes, permutations, repeats, concatenations.

In torch many of them are views that share memory with their input, which a compiler must track if something is written
in place later.
"""

from __future__ import annotations

import math
from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import Attributes, Draw, Form, Invalid, Operator, Types, Use
from driftline.generate.ops import arrangement, padding
from driftline.generate.ops.onnx_words import onnx_reshape
from driftline.generate.ops.rules import (
    MOVED,
    MOVED_REAL,
    Drawn,
    any_axis,
    choosing,
    divisor,
    normal_axis,
    nothing,
    one_of,
    replaced,
    swapped,
)


def _draw_reshape(draw: Draw, first: TensorType) -> Drawn:
    if not first.size:
        shape = list(first.shape)
        draw.rng.shuffle(shape)
        return (), {"shape": shape}
    left, shape = first.size, []
    for _ in range(draw.integer(0, 3)):
        shape.append(divisor(draw, left))
        left //= shape[-1]
    shape.append(left)
    draw.rng.shuffle(shape)
    if draw.chance(0.3):
        shape[draw.integer(0, len(shape) - 1)] = -1
    return (), {"shape": shape}


def _reshape(types: Types, attributes: Attributes) -> Types:
    shape = list(attributes["shape"])
    if shape.count(-1) == 1:
        known = -math.prod(shape)
        if not known or types[0].size % known:
            raise Invalid(f"{types[0]} has no shape {shape}")
        shape[shape.index(-1)] = types[0].size // known
    if math.prod(shape) != types[0].size or min(shape, default=0) < 0:
        raise Invalid(f"{types[0]} has no shape {shape}")
    return (types[0].with_shape(shape),)


def _onnx_reshape(w: Any, u: Use) -> Any:
    return onnx_reshape(w, u.inputs[0], u["shape"] if "shape" in u.attributes else u.outputs[0].shape)


def _draw_span(draw: Draw, first: TensorType) -> Drawn:
    start = draw.integer(0, first.rank - 1)
    return (), {"start": start, "end": draw.integer(start, first.rank - 1)}


def _flatten(types: Types, attributes: Attributes) -> Types:
    start, end = (normal_axis(attributes[name], types[0].rank) for name in ("start", "end"))
    if start > end:
        raise Invalid("the axes to flatten end before they start")
    shape = types[0].shape
    return (types[0].with_shape((*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :])),)


def _flatten_2d(types: Types, attributes: Attributes) -> Types:
    shape, axis = types[0].shape, attributes["axis"]
    if not 0 <= axis <= len(shape):
        raise Invalid(f"no place {axis} among the axes of {shape}")
    return (types[0].with_shape((math.prod(shape[:axis]), math.prod(shape[axis:]))),)


def _draw_unflatten(draw: Draw, first: TensorType) -> Drawn:
    axis = draw.axis(first.rank)
    size = first.shape[axis]
    inner = divisor(draw, size) if size else 2
    return (), {"axis": axis, "sizes": [size // inner, inner]}


def _unflatten(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    if math.prod(attributes["sizes"]) != types[0].shape[axis]:
        raise Invalid("the sizes do not make up the axis")
    return (types[0].with_shape(replaced(types[0].shape, axis, *attributes["sizes"])),)


def _ones(first: TensorType) -> list[int]:
    return [axis for axis, size in enumerate(first.shape) if size == 1]


def _squeeze(types: Types, attributes: Attributes) -> Types:
    axes = {normal_axis(axis, types[0].rank) for axis in attributes["axes"]}
    if not axes <= set(_ones(types[0])):
        raise Invalid("an axis to squeeze is not of size 1")
    return (types[0].with_shape(size for axis, size in enumerate(types[0].shape) if axis not in axes),)


def _squeeze_all(types: Types, attributes: Attributes) -> Types:
    return (types[0].with_shape(size for size in types[0].shape if size != 1),)


def _unsqueeze(types: Types, attributes: Attributes) -> Types:
    shape = list(types[0].shape)
    shape.insert(normal_axis(attributes["axis"], types[0].rank + 1), 1)
    return (types[0].with_shape(shape),)


def _permute(types: Types, attributes: Attributes) -> Types:
    axes = [normal_axis(axis, types[0].rank) for axis in attributes["axes"]]
    if sorted(axes) != list(range(types[0].rank)):
        raise Invalid("the axes are no permutation")
    return (types[0].with_shape(types[0].shape[axis] for axis in axes),)


def _transpose(types: Types, attributes: Attributes) -> Types:
    one, other = (normal_axis(attributes[name], types[0].rank) for name in ("one", "other"))
    return _permute(types, {"axes": swapped(types[0].rank, one, other)})


def moved(rank: int, source: int, target: int) -> list[int]:
    """Return all axes in order, with `source` moved to `target`."""
    axes = [axis for axis in range(rank) if axis != source % rank]
    axes.insert(target % rank, source % rank)
    return axes


def _movedim(types: Types, attributes: Attributes) -> Types:
    rank = types[0].rank
    source, target = (normal_axis(attributes[name], rank) for name in ("source", "target"))
    return _permute(types, {"axes": moved(rank, source, target)})


def _draw_expand(draw: Draw, first: TensorType) -> Drawn:
    before = [draw.integer(1, 3) for _ in range(draw.integer(0, 2))] if first.rank < 4 else []
    return (), {"shape": before + [draw.integer(1, 5) if size == 1 else size for size in first.shape]}


def _expand(types: Types, attributes: Attributes) -> Types:
    shape = attributes["shape"]
    last = shape[len(shape) - types[0].rank :]
    if len(shape) < types[0].rank or any(a not in (1, b) for a, b in zip(types[0].shape, last, strict=True)):
        raise Invalid(f"{types[0]} does not expand to {shape}")
    return (types[0].with_shape(shape),)


def _draw_tile(draw: Draw, first: TensorType) -> Drawn:
    return (), {"repeats": [draw.choice((1, 1, 2, 3)) for _ in first.shape]}


def _tile(types: Types, attributes: Attributes) -> Types:
    if len(attributes["repeats"]) != types[0].rank:
        raise Invalid("one number of repeats for each axis")
    return (types[0].with_shape(a * b for a, b in zip(types[0].shape, attributes["repeats"], strict=True)),)


def _repeat_interleave(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    return (types[0].with_shape(replaced(types[0].shape, axis, types[0].shape[axis] * attributes["repeats"])),)


def _onnx_repeat_interleave(w: Any, u: Use) -> Any:
    shape, axis = u.types[0].shape, u["axis"] % u.types[0].rank
    apart = w.node("Unsqueeze", u.inputs[0], w.ints([axis + 1]))
    wide = w.node("Expand", apart, w.ints(replaced(shape, axis, shape[axis], u["repeats"])))
    return onnx_reshape(w, wide, u.outputs[0].shape)


def _permutation(draw: Draw, first: TensorType) -> list[int]:
    return draw.rng.sample(range(first.rank), first.rank)


def _draw_squeeze(draw: Draw, first: TensorType) -> Drawn:
    ones = _ones(first)
    return (), {"axes": sorted(draw.rng.sample(ones, draw.integer(1, len(ones))))}


def _onnx_expand(w: Any, u: Use) -> Any:
    return w.node("Expand", *u.inputs, w.ints(u["shape"]))


OPERATORS = [
    Operator(
        "reshape", _reshape, _draw_reshape,
        Form("torch.reshape({0}, {shape})", MOVED), Form(_onnx_reshape, MOVED_REAL),
        Form("jnp.reshape({0}, {shape})", MOVED), view=True,
    ),
    Operator(
        # Of a copy where the memory does not allow a view: the layout of the input is not known here
        "view", _reshape, _draw_reshape, Form("{0}.contiguous().view({shape})", MOVED), view=True,
    ),
    Operator(
        "flatten", _flatten, _draw_span,
        Form("torch.flatten({0}, {start}, {end})", MOVED), Form(_onnx_reshape, MOVED_REAL),
        Form(lambda u: f"jnp.reshape({u.inputs[0]}, {u.outputs[0].shape})", MOVED), rank=(1, 5), view=True,
    ),
    Operator(
        "flatten_2d", _flatten_2d, choosing(axis=lambda draw, first: draw.integer(0, first.rank)),
        Form(lambda u: f"{u.inputs[0]}.reshape({u.outputs[0].shape})", MOVED),
        Form(lambda w, u: w.node("Flatten", *u.inputs, axis=u["axis"]), MOVED_REAL),
        Form(lambda u: f"{u.inputs[0]}.reshape({u.outputs[0].shape})", MOVED), rank=(1, 5), view=True,
    ),
    Operator(
        "unflatten", _unflatten, _draw_unflatten,
        Form("torch.unflatten({0}, {axis}, {sizes})", MOVED), Form(_onnx_reshape, MOVED_REAL),
        Form(lambda u: f"jnp.reshape({u.inputs[0]}, {u.outputs[0].shape})", MOVED), rank=(1, 4), view=True,
    ),
    Operator(
        "squeeze", _squeeze, _draw_squeeze,
        Form("torch.squeeze({0}, {axes})", MOVED),
        Form(lambda w, u: w.node("Squeeze", *u.inputs, w.ints(u["axes"])), MOVED_REAL),
        Form("jnp.squeeze({0}, tuple({axes}))", MOVED), rank=(1, 5), fits=lambda first: 1 in first.shape, view=True,
    ),
    Operator(
        "squeeze_all", _squeeze_all, nothing,
        Form("torch.squeeze({0})", MOVED), Form("Squeeze", MOVED_REAL), Form("jnp.squeeze({0})", MOVED), view=True,
    ),
    Operator(
        "unsqueeze", _unsqueeze, choosing(axis=lambda draw, first: draw.axis(first.rank + 1)),
        Form("torch.unsqueeze({0}, {axis})", MOVED),
        Form(lambda w, u: w.node("Unsqueeze", *u.inputs, w.ints([u["axis"]])), MOVED_REAL),
        Form("jnp.expand_dims({0}, {axis})", MOVED), rank=(0, 4), view=True,
    ),
    Operator(
        "permute", _permute, choosing(axes=_permutation),
        Form("{0}.permute({axes})", MOVED),
        Form(lambda w, u: w.node("Transpose", *u.inputs, perm=u["axes"]), MOVED_REAL),
        Form("jnp.transpose({0}, {axes})", MOVED), rank=(1, 5), view=True,
    ),
    Operator(
        "transpose", _transpose, choosing(one=any_axis, other=any_axis),
        Form("torch.transpose({0}, {one}, {other})", MOVED),
        Form(
            lambda w, u: w.node("Transpose", *u.inputs, perm=swapped(u.types[0].rank, u["one"], u["other"])), MOVED_REAL
        ),
        Form("jnp.swapaxes({0}, {one}, {other})", MOVED), rank=(1, 5), view=True,
    ),
    Operator(
        "matrix_t", _transpose, lambda draw, first: ((), {"one": 0, "other": 1}),
        Form("{0}.t()", MOVED), Form("Transpose", MOVED_REAL), Form("{0}.T", MOVED), rank=(2, 2), view=True,
    ),
    Operator(
        "matrix_mt", _transpose, lambda draw, first: ((), {"one": -1, "other": -2}),
        Form("{0}.mT", MOVED),
        Form(lambda w, u: w.node("Transpose", *u.inputs, perm=swapped(u.types[0].rank, -1, -2)), MOVED_REAL),
        Form("{0}.mT", MOVED), rank=(2, 5), view=True,
    ),
    Operator(
        "movedim", _movedim, choosing(source=any_axis, target=any_axis),
        Form("torch.movedim({0}, {source}, {target})", MOVED),
        Form(
            lambda w, u: w.node("Transpose", *u.inputs, perm=moved(u.types[0].rank, u["source"], u["target"])),
            MOVED_REAL,
        ),
        Form("jnp.moveaxis({0}, {source}, {target})", MOVED), rank=(1, 5), view=True,
    ),
    Operator(
        "expand", _expand, _draw_expand,
        Form("{0}.expand({shape})", MOVED), Form(_onnx_expand, MOVED_REAL),
        Form("jnp.broadcast_to({0}, {shape})", MOVED), rank=(0, 4), view=True,
    ),
    Operator(
        "broadcast_to", _expand, _draw_expand,
        Form("torch.broadcast_to({0}, {shape})", MOVED), Form(_onnx_expand, MOVED_REAL),
        Form("jnp.broadcast_to({0}, {shape})", MOVED), rank=(0, 4), view=True,
    ),
    Operator(
        "tile", _tile, _draw_tile,
        Form("{0}.repeat({repeats})", MOVED),
        Form(lambda w, u: w.node("Tile", *u.inputs, w.ints(u["repeats"])), MOVED_REAL),
        Form("jnp.tile({0}, {repeats})", MOVED), rank=(1, 5),
    ),
    Operator(
        "repeat_interleave", _repeat_interleave, choosing(axis=any_axis, repeats=one_of(1, 2, 3)),
        Form("torch.repeat_interleave({0}, {repeats}, {axis})", MOVED), Form(_onnx_repeat_interleave, MOVED_REAL),
        Form("jnp.repeat({0}, {repeats}, {axis})", MOVED), rank=(1, 4),
    ),
    *arrangement.OPERATORS,
    *padding.OPERATORS,
]  # fmt: skip
