"""Concatenation and rearrangement: stacking, flips, rolls, rotations, blocks of pixels as channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import ALL, COMPLEX, Attributes, Draw, Form, Invalid, Need, Operator, Types, Use
from driftline.generate.ops.onnx_words import onnx_flip, onnx_reshape
from driftline.generate.ops.rules import (
    MOVED,
    MOVED_REAL,
    Drawn,
    any_axis,
    choosing,
    divisor,
    normal_axis,
    not_empty,
    replaced,
    swapped,
)

NOT_WIDE = (*ALL, *COMPLEX)  # torch has no kernels for wide unsigned integers here


def _flipped(types: Types, attributes: Attributes) -> Types:
    for axis in attributes["axes"]:
        normal_axis(axis, types[0].rank)
    return (types[0],)


def _onnx_roll(w: Any, u: Use) -> Any:
    axis, size = u["axis"] % u.types[0].rank, u.types[0].shape[u["axis"]]
    cut = -u["shift"] % size if size else 0
    ends = [w.node("Slice", u.inputs[0], w.ints([a]), w.ints([b]), w.ints([axis])) for a, b in ((cut, 2**31), (0, cut))]
    return w.node("Concat", *ends, axis=axis)


def _rolled(types: Types, attributes: Attributes) -> Types:
    normal_axis(attributes["axis"], types[0].rank)
    return (types[0],)


def _rot90(types: Types, attributes: Attributes) -> Types:
    one, other = (normal_axis(axis, types[0].rank) for axis in attributes["axes"])
    if one == other:
        raise Invalid("a plane has two axes")
    if attributes["times"] % 2 == 0:
        return (types[0],)
    return (types[0].with_shape(types[0].shape[axis] for axis in swapped(types[0].rank, one, other)),)


def _onnx_rot90(w: Any, u: Use) -> Any:
    one, other = u["axes"]
    turn = u["times"] % 4
    if turn == 0:
        return w.node("Identity", u.inputs[0])
    if turn == 2:
        return onnx_flip(w, u.inputs[0], [one, other])
    flipped = onnx_flip(w, u.inputs[0], [other if turn == 1 else one])
    return w.node("Transpose", flipped, perm=swapped(u.types[0].rank, one, other))


def _draw_concat(draw: Draw, first: TensorType) -> Drawn:
    axis = draw.axis(first.rank)
    sizes = [draw.choice((first.shape[axis], draw.integer(1, 5))) for _ in range(draw.integer(1, 3))]
    return [Need(first.with_shape(replaced(first.shape, axis % first.rank, size))) for size in sizes], {"axis": axis}


def _concat(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    if len({(t.dtype, t.rank, replaced(t.shape, axis)) for t in types}) > 1:
        raise Invalid("the inputs differ in more than the axis")
    return (types[0].with_shape(replaced(types[0].shape, axis, sum(t.shape[axis] for t in types))),)


def _draw_stack(draw: Draw, first: TensorType) -> Drawn:
    return [Need(first)] * draw.integer(1, 2), {"axis": draw.axis(first.rank + 1)}


def _stack(types: Types, attributes: Attributes) -> Types:
    if len(set(types)) > 1:
        raise Invalid("the inputs differ")
    axis = normal_axis(attributes["axis"], types[0].rank + 1)
    return (types[0].with_shape((*types[0].shape[:axis], len(types), *types[0].shape[axis:])),)


def _onnx_stack(w: Any, u: Use) -> Any:
    axis = u["axis"] % u.outputs[0].rank
    return w.node("Concat", *(w.node("Unsqueeze", value, w.ints([axis])) for value in u.inputs), axis=axis)


def _listed(template: str) -> Any:
    """Return a form whose template gets the list of all inputs."""
    return lambda u: template.format(inputs=", ".join(u.inputs), axis=u["axis"])


def _draw_meshgrid(draw: Draw, first: TensorType) -> Drawn:
    return (Need(first.with_shape((draw.integer(1, 7),))),), {}


def _meshgrid(types: Types, attributes: Attributes) -> Types:
    if any(t.rank != 1 for t in types) or len({t.dtype for t in types}) > 1:
        raise Invalid("a grid is made of vectors")
    grid = types[0].with_shape(t.shape[0] for t in types)
    return (grid,) * len(types)


def _onnx_meshgrid(w: Any, u: Use) -> Any:
    shape = w.ints(u.outputs[0].shape)
    return [
        w.node("Expand", w.node("Unsqueeze", u.inputs[0], w.ints([1])), shape),
        w.node("Expand", w.node("Unsqueeze", u.inputs[1], w.ints([0])), shape),
    ]


def _to_space(types: Types, attributes: Attributes) -> Types:
    n, c, h, w = types[0].shape
    block = attributes["block"]
    if c % block**2:
        raise Invalid("the channels do not make up blocks")
    return (types[0].with_shape((n, c // block**2, h * block, w * block)),)


def _to_depth(types: Types, attributes: Attributes) -> Types:
    n, c, h, w = types[0].shape
    block = attributes["block"]
    if h % block or w % block:
        raise Invalid("the image is not made of blocks")
    return (types[0].with_shape((n, c * block**2, h // block, w // block)),)


def _blocks(channels: bool) -> Any:
    def fits(first: TensorType) -> bool:
        return first.size > 0 and any(_block_fits(first, block, channels) for block in (2, 3))

    return fits


def _block_fits(first: TensorType, block: int, channels: bool) -> bool:
    _, c, h, w = first.shape
    return c % block**2 == 0 if channels else h % block == 0 and w % block == 0


def _draw_block(channels: bool) -> Any:
    return choosing(block=lambda draw, first: draw.choice([b for b in (2, 3) if _block_fits(first, b, channels)]))


def _shuffled(permutation: Sequence[int], reshape: str, to_depth: bool, channels_last: bool) -> Any:
    """Return a form that converts blocks of pixels to channels or back, by a reshape, a permutation and a reshape.
    `channels_last` is the order within a block."""

    def emit(u: Use) -> str:
        n, c, h, w = u.types[0].shape
        b = u["block"]
        if to_depth:
            cut = [n, c, h // b, b, w // b, b]
        else:
            cut = [n, b, b, c // b**2, h, w] if channels_last else [n, c // b**2, b, b, h, w]
        turned = f"{reshape}({u.inputs[0]}, {cut})"
        turned += f".{'permute' if reshape.startswith('torch') else 'transpose'}({list(permutation)})"
        return f"{reshape}({turned}, {list(u.outputs[0].shape)})"

    return emit


_CRD, _DCR = (0, 1, 4, 2, 5, 3), (0, 3, 4, 1, 5, 2)
_TO_DEPTH, _UNSHUFFLE = (0, 3, 5, 1, 2, 4), (0, 1, 3, 5, 2, 4)


def _onnx_unshuffle(w: Any, u: Use) -> Any:
    # SpaceToDepth orders channels differently
    n, c, height, width = u.types[0].shape
    b = u["block"]
    cut = onnx_reshape(w, u.inputs[0], [n, c, height // b, b, width // b, b])
    return onnx_reshape(w, w.node("Transpose", cut, perm=_UNSHUFFLE), u.outputs[0].shape)


def _onnx_to_space(mode: str) -> Any:
    return lambda w, u: w.node("DepthToSpace", *u.inputs, blocksize=u["block"], mode=mode)


def _channel_groups(types: Types, attributes: Attributes) -> Types:
    if types[0].shape[1] % attributes["groups"]:
        raise Invalid("the channels do not make up groups")
    return (types[0],)


def _grouped(u: Use) -> tuple[int, ...]:
    return replaced(u.types[0].shape, 1, u["groups"], u.types[0].shape[1] // u["groups"])


def _onnx_channel_shuffle(w: Any, u: Use) -> Any:
    turned = w.node("Transpose", onnx_reshape(w, u.inputs[0], _grouped(u)), perm=[0, 2, 1, 3, 4])
    return onnx_reshape(w, turned, u.types[0].shape)


OPERATORS = [
    Operator(
        "flip", _flipped, choosing(axes=lambda draw, first: draw.axes(first.rank)),
        Form("torch.flip({0}, {axes})", NOT_WIDE),
        Form(lambda w, u: onnx_flip(w, u.inputs[0], u["axes"]), MOVED_REAL),
        Form("jnp.flip({0}, {axes})", MOVED), rank=(1, 5),
    ),
    Operator(
        "roll", _rolled, choosing(axis=any_axis, shift=lambda draw, first: draw.integer(-7, 7)),
        Form("torch.roll({0}, {shift}, {axis})", MOVED), Form(_onnx_roll, MOVED_REAL),
        Form("jnp.roll({0}, {shift}, {axis})", MOVED), rank=(1, 5), fits=not_empty,
    ),
    Operator(
        "rot90", _rot90,
        choosing(
            times=lambda draw, first: draw.integer(-1, 4),
            axes=lambda draw, first: draw.rng.sample(range(first.rank), 2),
        ),
        Form("torch.rot90({0}, {times}, {axes})", NOT_WIDE), Form(_onnx_rot90, MOVED_REAL),
        Form("jnp.rot90({0}, {times}, tuple({axes}))", MOVED), rank=(2, 5),
    ),
    Operator(
        "concat", _concat, _draw_concat,
        Form(_listed("torch.cat([{inputs}], {axis})"), MOVED),
        Form(lambda w, u: w.node("Concat", *u.inputs, axis=u["axis"]), MOVED_REAL),
        Form(_listed("jnp.concatenate([{inputs}], {axis})"), MOVED), rank=(1, 5),
    ),
    Operator(
        "stack", _stack, _draw_stack,
        Form(_listed("torch.stack([{inputs}], {axis})"), MOVED), Form(_onnx_stack, MOVED_REAL),
        Form(_listed("jnp.stack([{inputs}], {axis})"), MOVED), rank=(0, 4),
    ),
    Operator(
        "meshgrid", _meshgrid, _draw_meshgrid,
        Form("torch.meshgrid({0}, {1}, indexing='ij')", MOVED), Form(_onnx_meshgrid, MOVED_REAL),
        Form("jnp.meshgrid({0}, {1}, indexing='ij')", MOVED), rank=(1, 1), view=True,
    ),
    Operator(
        "pixel_shuffle", _to_space, _draw_block(channels=True),
        Form("F.pixel_shuffle({0}, {block})", NOT_WIDE), Form(_onnx_to_space("CRD"), MOVED_REAL),
        Form(_shuffled(_CRD, "jnp.reshape", to_depth=False, channels_last=False), MOVED),
        rank=(4, 4), fits=_blocks(channels=True),
    ),
    Operator(
        "depth_to_space", _to_space, _draw_block(channels=True),
        Form(_shuffled(_DCR, "torch.reshape", to_depth=False, channels_last=True), MOVED),
        Form(_onnx_to_space("DCR"), MOVED_REAL),
        Form(_shuffled(_DCR, "jnp.reshape", to_depth=False, channels_last=True), MOVED),
        rank=(4, 4), fits=_blocks(channels=True),
    ),
    Operator(
        "pixel_unshuffle", _to_depth, _draw_block(channels=False),
        Form("F.pixel_unshuffle({0}, {block})", NOT_WIDE), Form(_onnx_unshuffle, MOVED_REAL),
        Form(_shuffled(_UNSHUFFLE, "jnp.reshape", to_depth=True, channels_last=False), MOVED),
        rank=(4, 4), fits=_blocks(channels=False),
    ),
    Operator(
        "space_to_depth", _to_depth, _draw_block(channels=False),
        Form(_shuffled(_TO_DEPTH, "torch.reshape", to_depth=True, channels_last=True), MOVED),
        Form(lambda w, u: w.node("SpaceToDepth", *u.inputs, blocksize=u["block"]), MOVED_REAL),
        Form(_shuffled(_TO_DEPTH, "jnp.reshape", to_depth=True, channels_last=True), MOVED),
        rank=(4, 4), fits=_blocks(channels=False),
    ),
    Operator(
        "channel_shuffle", _channel_groups, choosing(groups=lambda draw, first: divisor(draw, first.shape[1])),
        Form("F.channel_shuffle({0}, {groups})", NOT_WIDE), Form(_onnx_channel_shuffle, MOVED_REAL),
        Form(
            lambda u: f"jnp.reshape(jnp.swapaxes(jnp.reshape({u.inputs[0]}, {_grouped(u)}), 1, 2), {u.types[0].shape})",
            MOVED,
        ),
        rank=(4, 4), fits=not_empty,
    ),
]  # fmt: skip
