"""The player's operators that only move elements: reshaping, joining, splitting, padding, constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from driftline.programs.onnx.player.call import NodeCall, Unplayable, integers, onnx_op, torch_dtype
from driftline.programs.onnx.player.literals import tensor_of


@onnx_op("Constant")
def constant(call: NodeCall) -> Tensor:
    if (value := call.attr("value")) is not None:
        return tensor_of(value)
    for name, dtype in {"value_float": torch.float32, "value_floats": torch.float32,
                        "value_int": torch.int64, "value_ints": torch.int64}.items():  # fmt: skip
        if (value := call.attr(name)) is not None:
            return torch.tensor(value, dtype=dtype)
    raise Unplayable("a Constant of strings or sparse numbers")


@onnx_op("ConstantOfShape")
def constant_of_shape(call: NodeCall, shape: Tensor) -> Tensor:
    value = call.attr("value")
    filled = torch.zeros(1) if value is None else tensor_of(value)
    return filled.reshape(()).expand(integers(shape) or ()).clone()


@onnx_op("Shape")
def shape(call: NodeCall, x: Tensor) -> Tensor:
    return torch.tensor(list(x.shape)[slice(call.attr("start", 0), call.attr("end"))], dtype=torch.int64)


@onnx_op("Size")
def size(call: NodeCall, x: Tensor) -> Tensor:
    return torch.tensor(x.numel(), dtype=torch.int64)


@onnx_op("Reshape")
def reshape(call: NodeCall, x: Tensor, shape: Tensor | None = None) -> Tensor:
    wanted = integers(shape) if shape is not None else call.ints("shape")
    assert wanted is not None
    if not call.attr("allowzero", 0):
        wanted = [x.shape[at] if given == 0 else given for at, given in enumerate(wanted)]
    if -1 in wanted and 0 in wanted:  # torch does not infer a size of an empty tensor
        wanted = [1 if given == -1 else given for given in wanted]
    return x.reshape(tuple(wanted))


@onnx_op("Flatten")
def flatten(call: NodeCall, x: Tensor) -> Tensor:
    axis = call.attr("axis", 1)
    axis = axis + x.dim() if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


def _axes(call: NodeCall, axes: Tensor | None) -> list[int] | None:
    return integers(axes) if axes is not None else call.ints("axes")


@onnx_op("Squeeze")
def squeeze(call: NodeCall, x: Tensor, axes: Tensor | None = None) -> Tensor:
    given = _axes(call, axes)
    gone = (
        {axis % max(x.dim(), 1) for axis in given}
        if given is not None
        else {a for a, s in enumerate(x.shape) if s == 1}
    )
    if any(x.shape[axis] != 1 for axis in gone):
        raise ValueError(f"Squeeze of an axis that is not 1: {list(x.shape)}, axes {sorted(gone)}")
    return x.reshape(tuple(s for axis, s in enumerate(x.shape) if axis not in gone))


@onnx_op("Unsqueeze")
def unsqueeze(call: NodeCall, x: Tensor, axes: Tensor | None = None) -> Tensor:
    given = _axes(call, axes) or []
    rank = x.dim() + len(given)
    for axis in sorted(axis % rank for axis in given):
        x = x.unsqueeze(axis)
    return x


@onnx_op("Transpose")
def transpose(call: NodeCall, x: Tensor) -> Tensor:
    return x.permute(call.ints("perm", list(reversed(range(x.dim())))))


@onnx_op("Concat")
def concat(call: NodeCall, *parts: Tensor) -> Tensor:
    return torch.cat(parts, dim=call.attr("axis", 1))


@onnx_op("Split")
def split(call: NodeCall, x: Tensor, sizes: Tensor | None = None) -> tuple[Tensor, ...]:
    axis = call.attr("axis", 0)
    given = integers(sizes) if sizes is not None else call.ints("split")
    if given is None:
        each = -(-x.shape[axis] // len(call.outputs))
        given = [min(each, x.shape[axis] - each * number) for number in range(len(call.outputs))]
    return torch.split(x, given, dim=axis)


@onnx_op("Expand")
def expand(call: NodeCall, x: Tensor, shape: Tensor) -> Tensor:
    return x.expand(torch.broadcast_shapes(x.shape, integers(shape) or ()))


@onnx_op("Tile")
def tile(call: NodeCall, x: Tensor, repeats: Tensor, axis: Tensor | None = None) -> Tensor:
    if call.opset < 6:
        assert axis is not None
        counts = [1] * x.dim()
        counts[int(axis)] = int(repeats)
        return x.repeat(counts)
    return x.repeat(integers(repeats) or ())


@onnx_op("Slice")
def slice_(
    call: NodeCall,
    x: Tensor,
    starts: Tensor | None = None,
    ends: Tensor | None = None,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    first = integers(starts) if starts is not None else call.ints("starts")
    last = integers(ends) if ends is not None else call.ints("ends")
    assert first is not None and last is not None
    along = integers(axes) if axes is not None else call.ints("axes", list(range(len(first))))
    by = integers(steps) or [1] * len(first)
    for axis, start, end, step in zip(along or [], first, last, by, strict=True):
        places = (
            range(x.shape[axis])[slice(start, end, step)] if step > 0 else _backwards(x.shape[axis], start, end, step)
        )
        if step > 0:
            x = x[(slice(None),) * (axis % x.dim()) + (slice(places.start, places.stop, step),)]
        else:
            x = x.index_select(axis, torch.tensor(list(places), dtype=torch.int64))
    return x


def _backwards(size: int, start: int, end: int, step: int) -> range:
    """Return the indices of a slice with a negative step. ONNX clamps both ends; an end before the beginning includes
    the first element."""
    start = min(max(start + size if start < 0 else start, -1), size - 1)
    end = max(end + size, -1) if -size <= end < 0 else -1 if end < -size else min(end, size - 1)
    return range(start, end, step)


@onnx_op("Pad")
def pad(
    call: NodeCall, x: Tensor, pads: Tensor | None = None, value: Tensor | None = None, axes: Tensor | None = None
) -> Tensor:
    given = integers(pads) if pads is not None else call.ints("pads") or call.ints("paddings")
    assert given is not None
    along = [axis % x.dim() for axis in integers(axes) or range(x.dim())]
    fill = value if value is not None else torch.tensor(call.attr("value", 0.0))
    mode = call.attr("mode", b"constant").decode()
    before = dict(zip(along, given[: len(along)], strict=True))
    after = dict(zip(along, given[len(along) :], strict=True))
    for axis in along:  # what is cut off is gone before anything is added
        low, high = max(-before[axis], 0), max(-after[axis], 0)
        x = x.narrow(axis, low, x.shape[axis] - low - high) if low or high else x
    low_high = [(max(before.get(a, 0), 0), max(after.get(a, 0), 0)) for a in range(x.dim())]
    if mode == "constant":
        flat = [count for pair in reversed(low_high) for count in pair]
        constant_value = fill.reshape(()).item()
        return (
            F.pad(x, flat, value=constant_value)
            if x.dtype != torch.bool
            else F.pad(x.to(torch.uint8), flat, value=int(constant_value)).bool()
        )
    for axis, (low, high) in enumerate(low_high):
        if low or high:
            x = x.index_select(axis, torch.from_numpy(_mirrored(x.shape[axis], low, high, mode)))
    return x


def _mirrored(size: int, low: int, high: int, mode: str) -> Any:
    kind = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}[mode]
    return np.pad(np.arange(size), (low, high), mode=kind)  # type: ignore[call-overload]


@onnx_op("DepthToSpace")
def depth_to_space(call: NodeCall, x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    block = call.attr("blocksize")
    if call.attr("mode", b"DCR") == b"CRD":
        return (
            x.reshape(b, c // block**2, block, block, h, w)
            .permute(0, 1, 4, 2, 5, 3)
            .reshape(b, -1, h * block, w * block)
        )
    return (
        x.reshape(b, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(b, -1, h * block, w * block)
    )


@onnx_op("SpaceToDepth")
def space_to_depth(call: NodeCall, x: Tensor) -> Tensor:
    b, c, h, w = x.shape
    block = call.attr("blocksize")
    order = (0, 1, 3, 5, 2, 4) if call.attr("mode", b"DCR") == b"CRD" else (0, 3, 5, 1, 2, 4)
    parts = x.reshape(b, c, h // block, block, w // block, block).permute(order)
    return parts.reshape(b, c * block**2, h // block, w // block)


@onnx_op("Trilu")
def trilu(call: NodeCall, x: Tensor, k: Tensor | None = None) -> Tensor:
    diagonal = 0 if k is None else int(k)
    return torch.triu(x, diagonal) if call.attr("upper", 1) else torch.tril(x, diagonal)


@onnx_op("EyeLike")
def eye_like(call: NodeCall, x: Tensor) -> Tensor:
    dtype = torch_dtype(call.attr("dtype")) if call.attr("dtype") else x.dtype
    rows, columns = x.shape
    places = torch.arange(columns)[None, :] == torch.arange(rows)[:, None] + call.attr("k", 0)
    return places.to(dtype)


@onnx_op("Range")
def range_(call: NodeCall, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    count = max(math.ceil((limit.item() - start.item()) / delta.item()), 0)
    return start.reshape(()) + torch.arange(count).to(start.dtype) * delta.reshape(())


@onnx_op("ReverseSequence")
def reverse_sequence(call: NodeCall, x: Tensor, lengths: Tensor) -> Tensor:
    batch, time = call.attr("batch_axis", 1), call.attr("time_axis", 0)
    rows = x.movedim((batch, time), (0, 1))
    made = [
        torch.cat((row[:count].flip(0), row[count:])) for row, count in zip(rows, integers(lengths) or [], strict=True)
    ]
    return torch.stack(made).movedim((0, 1), (batch, time))


@onnx_op("CenterCropPad")
def center_crop_pad(call: NodeCall, x: Tensor, shape: Tensor) -> Tensor:
    wanted = integers(shape) or []
    for axis, count in zip(call.ints("axes", list(range(x.dim()))) or [], wanted, strict=True):
        have = x.shape[axis]
        if have > count:
            x = x.narrow(axis, (have - count) // 2, count)
        elif have < count:
            sides = [0, 0] * x.dim()
            at = 2 * (x.dim() - 1 - axis % x.dim())
            sides[at], sides[at + 1] = (count - have) // 2, count - have - (count - have) // 2
            x = F.pad(x, sides)
    return x


@onnx_op("Dropout")
def dropout(call: NodeCall, x: Tensor, ratio: Tensor | None = None, training: Tensor | None = None) -> Any:
    if training is not None and bool(training) and (ratio is None or float(ratio) > 0):
        raise Unplayable("Dropout in training mode: it draws random numbers")
    return (x, torch.ones(x.shape, dtype=torch.bool)) if call.wants(1) else x
