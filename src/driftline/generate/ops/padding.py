"""Padding with a constant, the mirror image, the edge or the other end; and negative padding, which crops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import FLOATS, NUMBERS, Draw, Form, Invalid, Operator, Use
from driftline.generate.ops.rules import MOVED, MOVED_REAL, Drawn, not_empty


def padded(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    """Return the type after padding. `pads` has a pair (before, after) for each of the last axes, in order."""
    pads = attributes["pads"]
    shape = list(types[0].shape)
    if len(pads) > len(shape):
        raise Invalid("there are more pads than axes")
    for axis, (before, after) in zip(range(-len(pads), 0), pads, strict=True):
        if shape[axis] + min(before, 0) + min(after, 0) < 0:
            raise Invalid("more is cut off than there is")
        shape[axis] += before + after
    return (types[0].with_shape(shape),)


def _image(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    """Return the type after padding all axes but the first or the first two, which torch supports in one call."""
    if types[0].rank - len(attributes["pads"]) not in (1, 2):
        raise Invalid("pads for all axes of an image")
    return padded(types, attributes)


def _below_size(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    pads = attributes["pads"]
    if any(max(pair) >= size for pair, size in zip(pads, types[0].shape[-len(pads) :], strict=True)):
        raise Invalid("a mirror image is smaller than what is mirrored")
    return _image(types, attributes)


def _up_to_size(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    pads = attributes["pads"]
    if any(max(pair) > size for pair, size in zip(pads, types[0].shape[-len(pads) :], strict=True)):
        raise Invalid("what is repeated is smaller than the padding")
    return _image(types, attributes)


def _draw_constant(draw: Draw, first: TensorType) -> Drawn:
    pads = [[draw.integer(0, 3), draw.integer(0, 3)] for _ in range(draw.integer(1, first.rank))]
    return (), {"pads": pads, "value": draw.choice((0, 0, 1, 5))}


def _draw_crop(draw: Draw, first: TensorType) -> Drawn:
    pads = []
    for size in first.shape[-draw.integer(1, first.rank) :]:
        before = draw.integer(-min(2, size), 2)
        left = size + min(before, 0)  # cutting comes before filling
        pads.append([before, draw.integer(max(-2, -left, 1 - size - before), 2)])
    return (), {"pads": pads}


def _draw_image(least: int) -> Any:
    def drawn(draw: Draw, first: TensorType) -> Drawn:
        axes = first.rank - draw.choice([skip for skip in (1, 2) if 1 <= first.rank - skip <= 3])
        return (), {"pads": [[draw.integer(0, min(3, s - least)) for _ in "ab"] for s in first.shape[-axes:]]}

    return drawn


def torch_pads(pads: Sequence[Sequence[int]]) -> list[int]:
    """Return the pads as torch expects them, from the last axis to the first."""
    return [amount for pair in reversed(pads) for amount in pair]


def all_pads(u: Use) -> list[list[int]]:
    """Return a pair of pads for every axis."""
    return [[0, 0]] * (u.types[0].rank - len(u["pads"])) + [list(pair) for pair in u["pads"]]


def onnx_pads(w: Any, pads: Sequence[Sequence[int]]) -> Any:
    """Add the pads as ONNX expects them: all amounts before, then all amounts after."""
    return w.ints([pair[0] for pair in pads] + [pair[1] for pair in pads])


def _torch(mode: str) -> Any:
    return lambda u: f"F.pad({u.inputs[0]}, {torch_pads(u['pads'])}, mode={mode!r})"


def _onnx(mode: str) -> Any:
    return lambda w, u: w.node("Pad", u.inputs[0], onnx_pads(w, all_pads(u)), mode=mode)


def _jnp(mode: str) -> Any:
    return lambda u: f"jnp.pad({u.inputs[0]}, {all_pads(u)}, mode={mode!r})"


def _torch_constant(u: Use) -> str:
    value = bool(u["value"]) if u.types[0].dtype == "bool" else u["value"]
    return f"F.pad({u.inputs[0]}, {torch_pads(u['pads'])}, value={value})"


def _onnx_constant(w: Any, u: Use) -> Any:
    return w.node("Pad", u.inputs[0], onnx_pads(w, all_pads(u)), w.scalar(u["value"], u.types[0].dtype))


def _onnx_crop(w: Any, u: Use) -> Any:
    # Pad takes negative amounts, but the reference evaluator does not
    pads = all_pads(u)
    axes = list(range(u.types[0].rank))
    starts = w.ints([max(0, -before) for before, _ in pads])
    ends = w.ints([size - max(0, -after) for size, (_, after) in zip(u.types[0].shape, pads, strict=True)])
    cut = w.node("Slice", u.inputs[0], starts, ends, w.ints(axes))
    return w.node("Pad", cut, onnx_pads(w, [[max(0, amount) for amount in pair] for pair in pads]))


def _jnp_crop(u: Use) -> str:
    pads = [(before, after, 0) for before, after in all_pads(u)]
    return f"lax.pad({u.inputs[0]}, jnp.zeros((), {u.inputs[0]}.dtype), {pads})"


OPERATORS = [
    Operator(
        "pad_constant", padded, _draw_constant,
        Form(_torch_constant, MOVED), Form(_onnx_constant, MOVED_REAL),
        Form(lambda u: f"jnp.pad({u.inputs[0]}, {all_pads(u)}, constant_values={u['value']})", MOVED), rank=(1, 5),
    ),
    Operator(
        "pad_crop", padded, _draw_crop,
        Form(lambda u: f"F.pad({u.inputs[0]}, {torch_pads(u['pads'])})", MOVED), Form(_onnx_crop, MOVED_REAL),
        Form(_jnp_crop, MOVED), rank=(1, 5), fits=not_empty,
    ),
    Operator(
        "pad_reflect", _below_size, _draw_image(1),
        Form(_torch("reflect"), FLOATS), Form(_onnx("reflect"), MOVED_REAL), Form(_jnp("reflect"), MOVED),
        rank=(2, 5), fits=not_empty,
    ),
    Operator(
        "pad_edge", _image, _draw_image(-3),
        Form(_torch("replicate"), FLOATS), Form(_onnx("edge"), MOVED_REAL), Form(_jnp("edge"), MOVED),
        rank=(2, 5), fits=not_empty,
    ),
    Operator(
        # ONNX knows it from opset 19 on
        "pad_wrap", _up_to_size, _draw_image(0),
        Form(_torch("circular"), NUMBERS), None, Form(_jnp("wrap"), MOVED), rank=(2, 5), fits=not_empty,
    ),
]  # fmt: skip
