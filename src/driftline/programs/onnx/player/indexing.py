"""The player's operators that select or place elements by index."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from driftline.programs.onnx.player.call import NodeCall, Unplayable, onnx_op


def _valid(indices: Tensor, size: int) -> Tensor:
    """Return non-negative indices. Raises for an index out of range, more clearly than torch does."""
    indices = indices.to(torch.int64)
    if indices.numel() and not (-size <= int(indices.min()) and int(indices.max()) < size):
        raise IndexError(f"an index is out of range: the axis has {size} elements")
    return torch.where(indices < 0, indices + size, indices)


@onnx_op("Gather")
def gather(call: NodeCall, x: Tensor, indices: Tensor) -> Tensor:
    axis = call.attr("axis", 0) % x.dim()
    chosen = _valid(indices, x.shape[axis])
    picked = x.index_select(axis, chosen.reshape(-1))
    return picked.reshape((*x.shape[:axis], *chosen.shape, *x.shape[axis + 1 :]))


@onnx_op("GatherElements")
def gather_elements(call: NodeCall, x: Tensor, indices: Tensor) -> Tensor:
    axis = call.attr("axis", 0)
    return torch.gather(x, axis, _valid(indices, x.shape[axis]))


def _tuples(indices: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Split the last axis of `indices` into one index tensor for each axis of `shape`."""
    return tuple(_valid(part, size) for part, size in zip(indices.unbind(-1), shape, strict=False))


@onnx_op("GatherND")
def gather_nd(call: NodeCall, x: Tensor, indices: Tensor) -> Tensor:
    batch = call.attr("batch_dims", 0)
    if batch == 0:
        return x[_tuples(indices, tuple(x.shape))]
    shape = x.shape[:batch]
    flat, places = x.reshape(-1, *x.shape[batch:]), indices.reshape(-1, *indices.shape[batch:])
    rows = [row[_tuples(place, tuple(row.shape))] for row, place in zip(flat, places, strict=True)]
    return torch.stack(rows).reshape(*shape, *rows[0].shape)


@onnx_op("Scatter", "ScatterElements")
def scatter_elements(call: NodeCall, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis = call.attr("axis", 0)
    places = _valid(indices, x.shape[axis])
    how = call.attr("reduction", b"none").decode()
    if how == "none":
        return x.scatter(axis, places, updates)
    kind = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[how]
    return x.scatter_add(axis, places, updates) if kind == "sum" else x.scatter_reduce(axis, places, updates, kind)


@onnx_op("ScatterND")
def scatter_nd(call: NodeCall, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    how = call.attr("reduction", b"none").decode()
    places = _tuples(indices, tuple(x.shape))
    if how in ("none", "add"):
        return x.index_put(places, updates, accumulate=how == "add")
    kind = {"mul": "prod", "max": "amax", "min": "amin"}[how]
    depth = indices.shape[-1]
    sizes = x.shape[:depth]
    place = torch.zeros(indices.shape[:-1], dtype=torch.int64)
    for part, size in zip(places, sizes, strict=True):
        place = place * size + part
    rest = x[(0,) * depth].numel() if depth else x.numel()
    flat = x.reshape(-1, rest)
    along = place.reshape(-1, 1).expand(-1, rest)
    return flat.scatter_reduce(0, along, updates.reshape(-1, rest), kind).reshape(x.shape)


@onnx_op("TensorScatter")
def tensor_scatter(call: NodeCall, past: Tensor, update: Tensor, write: Tensor | None = None) -> Tensor:
    axis = call.attr("axis", -2) % past.dim()
    count, room = update.shape[axis], past.shape[axis]
    rows = []
    for number, (old, new) in enumerate(zip(past, update, strict=True)):
        start = 0 if write is None else int(write[number])
        places = torch.arange(start, start + count)
        places = places % room if call.attr("mode", b"linear") == b"circular" else _valid(places, room)
        rows.append(old.index_copy(axis - 1, places, new))
    return torch.stack(rows)


@onnx_op("OneHot")
def one_hot(call: NodeCall, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    count, axis = int(depth), call.attr("axis", -1)
    where = torch.remainder(indices.to(torch.int64), count).unsqueeze(axis)
    inside = ((indices >= -count) & (indices < count)).unsqueeze(axis)
    shape = [1] * where.dim()
    shape[axis] = count
    hot = (torch.arange(count).reshape(shape) == where) & inside
    return torch.where(hot, values[1], values[0])


@onnx_op("Compress")
def compress(call: NodeCall, x: Tensor, condition: Tensor) -> Tensor:
    axis = call.attr("axis")
    places = condition.nonzero().reshape(-1)
    return x.reshape(-1).index_select(0, places) if axis is None else x.index_select(axis, places)


@onnx_op("NonZero")
def non_zero(call: NodeCall, x: Tensor) -> Tensor:
    return torch.nonzero(x if x.dim() else x.reshape(1)).t().contiguous()


@onnx_op("Unique")
def unique(call: NodeCall, x: Tensor) -> Any:
    import numpy as np

    if x.dtype == torch.bfloat16:
        raise Unplayable("Unique of bfloat16")
    axis = call.attr("axis")
    data = x.detach().reshape(-1) if axis is None else x.detach()
    along = 0 if axis is None else axis
    _, first, inverse, counts = np.unique(
        data.numpy(), return_index=True, return_inverse=True, return_counts=True, axis=along
    )
    order = np.argsort(first) if not call.attr("sorted", 1) else np.arange(len(first))
    back = np.argsort(order)
    chosen = torch.from_numpy(np.asarray(first[order], np.int64))
    answers = (
        (x.reshape(-1) if axis is None else x).index_select(along, chosen),
        chosen,
        torch.from_numpy(np.asarray(back[inverse.reshape(-1)], np.int64)),
        torch.from_numpy(np.asarray(counts[order], np.int64)),
    )
    return answers[: len(call.outputs)]
