"""Parts of a tensor: slices, splits, windows. In torch most of them are views."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import Attributes, Draw, Form, Invalid, Operator, Types, Use
from driftline.generate.ops.rules import MOVED, MOVED_REAL, Drawn, normal_axis, not_empty, replaced


def _draw_slice(draw: Draw, first: TensorType) -> Drawn:
    """Choose a slice of some axes. Ends may be counted from the back or lie beyond the tensor."""
    axes, parts = draw.axes(first.rank), []
    for axis in axes:
        size = first.shape[axis]
        start = draw.integer(0, max(size - 1, 0))
        stop = draw.integer(min(start + 1, size), size)
        step = draw.choice((1, 1, 2, 3))
        if start and draw.chance(0.3):
            start -= size
        stop = draw.choice((stop, stop, stop - size if stop < size else size + 5))
        parts.append([start, stop, step])
    return (), {"axes": axes, "parts": parts}


def _slice(types: Types, attributes: Attributes) -> Types:
    shape = list(types[0].shape)
    for axis, part in zip(attributes["axes"], attributes["parts"], strict=True):
        at = normal_axis(axis, types[0].rank)
        shape[at] = len(range(*slice(*part).indices(shape[at])))
    return (types[0].with_shape(shape),)


def bracket(u: Use) -> str:
    """Return the slice as an indexing expression, such as `x[:, 1:3]`."""
    parts = [":"] * u.types[0].rank
    for axis, (start, stop, step) in zip(u["axes"], u["parts"], strict=True):
        parts[axis] = f"{start}:{'' if stop is None else stop}" + (f":{step}" if step != 1 else "")
    return f"{u.inputs[0]}[{', '.join(parts)}]"


def _onnx_slice(w: Any, u: Use) -> Any:
    starts, stops, steps = zip(*u["parts"], strict=True)
    ends = [-(2**31) if stop is None else stop for stop in stops]
    return w.node("Slice", u.inputs[0], w.ints(starts), w.ints(ends), w.ints(u["axes"]), w.ints(steps))


def _draw_backwards(draw: Draw, first: TensorType) -> Drawn:
    axis = draw.integer(0, first.rank - 1)
    start = draw.integer(0, first.shape[axis] - 1)
    stop = draw.choice((None, draw.integer(-1, start - 1)))
    step = -draw.choice((1, 1, 2, 3))
    return (), {"axes": [axis], "parts": [[start, None if stop == -1 else stop, step]]}


def _torch_backwards(u: Use) -> str:
    """Write a slice with a negative step by flipping the tensor first, since torch has no negative steps."""
    (axis,), ((start, stop, step),) = u["axes"], u["parts"]
    size = u.types[0].shape[axis]
    end = size if stop is None else size - 1 - stop
    colons = ":, " * axis
    return f"torch.flip({u.inputs[0]}, [{axis}])[{colons}{size - 1 - start}:{end}:{-step}]"


def _draw_narrow(draw: Draw, first: TensorType) -> Drawn:
    axis = draw.axis(first.rank)
    start = draw.integer(0, first.shape[axis] - 1)
    return (), {"axis": axis, "start": start, "length": draw.integer(1, first.shape[axis] - start)}


def _narrow(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    if attributes["start"] + attributes["length"] > types[0].shape[axis]:
        raise Invalid("the part ends beyond the tensor")
    return (types[0].with_shape(replaced(types[0].shape, axis, attributes["length"])),)


def _onnx_narrow(w: Any, u: Use) -> Any:
    end = u["start"] + u["length"]
    return w.node("Slice", u.inputs[0], w.ints([u["start"]]), w.ints([end]), w.ints([u["axis"]]))


def _draw_select(draw: Draw, first: TensorType) -> Drawn:
    axis = draw.axis(first.rank)
    return (), {"axis": axis, "index": draw.integer(-first.shape[axis], first.shape[axis] - 1)}


def _select(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    normal_axis(attributes["index"], types[0].shape[axis])
    return (types[0].with_shape(replaced(types[0].shape, axis)),)


def _onnx_select(w: Any, u: Use) -> Any:
    return w.node("Gather", u.inputs[0], w.scalar(u["index"], "int64"), axis=u["axis"])


def _draw_split(draw: Draw, first: TensorType) -> Drawn:
    axis = draw.axis(first.rank)
    sizes, left = [], first.shape[axis]
    for _ in range(draw.integer(1, min(3, left) - 1) if left > 1 else 0):
        sizes.append(draw.integer(1, max(left - 1, 1)))
        left -= sizes[-1]
        if left <= 1:
            break
    return (), {"axis": axis, "sizes": [*sizes, left] if left or not sizes else sizes}


def _split(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    if sum(attributes["sizes"]) != types[0].shape[axis]:
        raise Invalid("the parts do not make up the axis")
    return tuple(types[0].with_shape(replaced(types[0].shape, axis, size)) for size in attributes["sizes"])


def _draw_chunk(draw: Draw, first: TensorType) -> Drawn:
    """Choose chunks as torch cuts them: of one size except the last, and possibly fewer than requested."""
    axis = draw.axis(first.rank)
    size, chunks = first.shape[axis], draw.integer(1, 4)
    each = math.ceil(size / chunks)
    return (), {"axis": axis, "chunks": chunks, "sizes": [min(each, size - at) for at in range(0, size, each)]}


def _chunk(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    size = types[0].shape[axis]
    each = max(math.ceil(size / attributes["chunks"]), 1)
    if attributes["sizes"] != [min(each, size - at) for at in range(0, size, each)]:
        raise Invalid("torch cuts other chunks")
    return _split(types, attributes)


def _onnx_split(w: Any, u: Use) -> Any:
    sizes = u["sizes"]
    return w.node("Split", u.inputs[0], w.ints(sizes), outputs=len(sizes), axis=u["axis"])


def unpacked(text: str, u: Use) -> str:
    """Return the expression for a list of results, or for its only element, as the emitters need it."""
    return text if len(u.outputs) > 1 else f"{text}[0]"


def _jnp_split(u: Use) -> str:
    return unpacked(f"jnp.split({u.inputs[0]}, {list(accumulate(u['sizes']))[:-1]}, {u['axis']})", u)


def _short(first: TensorType) -> list[int]:
    return [axis for axis, size in enumerate(first.shape) if 1 <= size <= 4]


def _unbind(types: Types, attributes: Attributes) -> Types:
    axis = normal_axis(attributes["axis"], types[0].rank)
    if not types[0].shape[axis]:
        raise Invalid("nothing to unbind")
    return (types[0].with_shape(replaced(types[0].shape, axis)),) * types[0].shape[axis]


def _onnx_unbind(w: Any, u: Use) -> Any:
    count = len(u.outputs)
    made = w.node("Split", u.inputs[0], w.ints([1] * count), outputs=count, axis=u["axis"])
    return [w.node("Squeeze", part, w.ints([u["axis"]])) for part in ([made] if count == 1 else made)]


def _jnp_unbind(u: Use) -> str:
    parts = [f"jnp.take({u.inputs[0]}, {at}, axis={u['axis']})" for at in range(len(u.outputs))]
    return ", ".join(parts)


def _draw_unfold(draw: Draw, first: TensorType) -> Drawn:
    axis = draw.axis(first.rank)
    return (), {"axis": axis, "size": draw.integer(1, min(first.shape[axis], 5)), "step": draw.integer(1, 3)}


def _unfold(types: Types, attributes: Attributes) -> Types:
    axis, shape = normal_axis(attributes["axis"], types[0].rank), types[0].shape
    if attributes["size"] > shape[axis]:
        raise Invalid("the window is larger than the axis")
    count = (shape[axis] - attributes["size"]) // attributes["step"] + 1
    return (types[0].with_shape((*replaced(shape, axis, count), attributes["size"])),)


def _draw_strided(draw: Draw, first: TensorType) -> Drawn:
    """Choose rows that start at regular offsets and may overlap."""
    width = draw.integer(1, min(first.size, 8))
    step, offset = draw.integer(1, 4), draw.integer(0, min(first.size - width, 3))
    rows = draw.integer(1, min((first.size - width - offset) // step + 1, 8))
    return (), {"shape": [rows, width], "strides": [step, 1], "offset": offset}


def _strided(types: Types, attributes: Attributes) -> Types:
    reach = sum((n - 1) * step for n, step in zip(attributes["shape"], attributes["strides"], strict=True))
    if attributes["offset"] + reach >= types[0].size:
        raise Invalid("it reaches beyond the memory")
    return (types[0].with_shape(attributes["shape"]),)


OPERATORS = [
    Operator(
        "slice", _slice, _draw_slice,
        Form(bracket, MOVED), Form(_onnx_slice, MOVED_REAL), Form(bracket, MOVED), rank=(1, 5), view=True,
    ),
    Operator(
        "slice_backwards", _slice, _draw_backwards,
        Form(_torch_backwards, tuple(d for d in MOVED if d not in ("uint16", "uint32", "uint64"))),
        Form(_onnx_slice, MOVED_REAL), Form(bracket, MOVED), rank=(1, 5), fits=not_empty,
    ),
    Operator(
        "narrow", _narrow, _draw_narrow,
        Form("torch.narrow({0}, {axis}, {start}, {length})", MOVED), Form(_onnx_narrow, MOVED_REAL),
        Form("lax.dynamic_slice_in_dim({0}, {start}, {length}, {axis})", MOVED), rank=(1, 5), fits=not_empty, view=True,
    ),
    Operator(
        "select", _select, _draw_select,
        Form("torch.select({0}, {axis}, {index})", MOVED), Form(_onnx_select, MOVED_REAL),
        Form("jnp.take({0}, {index}, axis={axis})", MOVED), rank=(1, 5), fits=not_empty, view=True,
    ),
    Operator(
        "split", _split, _draw_split,
        Form(lambda u: unpacked(f"torch.split({u.inputs[0]}, {u['sizes']}, {u['axis']})", u), MOVED),
        Form(_onnx_split, MOVED_REAL), Form(_jnp_split, MOVED), rank=(1, 5), fits=not_empty, view=True,
    ),
    Operator(
        "chunk", _chunk, _draw_chunk,
        Form(lambda u: unpacked(f"torch.chunk({u.inputs[0]}, {u['chunks']}, {u['axis']})", u), MOVED),
        Form(_onnx_split, MOVED_REAL), Form(_jnp_split, MOVED), rank=(1, 5), fits=not_empty, view=True,
    ),
    Operator(
        "unbind", _unbind, lambda draw, first: ((), {"axis": draw.choice(_short(first))}),
        Form(lambda u: unpacked(f"torch.unbind({u.inputs[0]}, {u['axis']})", u), MOVED),
        Form(_onnx_unbind, MOVED_REAL), Form(_jnp_unbind, MOVED),
        rank=(1, 5), fits=lambda first: bool(_short(first)), view=True,
    ),
    Operator(
        "unfold", _unfold, _draw_unfold,
        Form("{0}.unfold({axis}, {size}, {step})", MOVED), rank=(1, 4), fits=not_empty, view=True,
    ),
    Operator(
        # Of contiguous memory, at its own offset: in another layout the strides would read other elements
        "as_strided", _strided, _draw_strided,
        Form("{0}.contiguous().view(-1)[{offset}:].as_strided({shape}, {strides})", MOVED),
        rank=(1, 4), fits=not_empty, view=True,
    ),
]  # fmt: skip
