"""The player's reductions, cumulative sums, choices along an axis, softmax and related operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from driftline.programs.onnx.player.call import NodeCall, integers, onnx_op


def _axes(call: NodeCall, x: Tensor, axes: Tensor | None) -> list[int] | None:
    """Return the axes to reduce; None if nothing is reduced."""
    given = integers(axes) if axes is not None else call.ints("axes")
    if not given:
        return None if call.attr("noop_with_empty_axes", 0) else list(range(x.dim()))
    return [axis % max(x.dim(), 1) for axis in given]


def _reduction(
    name: str, function: Callable[[Tensor, list[int], bool], Tensor], alone: Callable[[Tensor], Tensor]
) -> None:
    """Register a reduction. `alone` is applied to each element if there is no axis to reduce."""

    @onnx_op(name)
    def run(call: NodeCall, x: Tensor, axes: Tensor | None = None) -> Tensor:
        along = _axes(call, x, axes)
        if along is None or not x.dim():
            return alone(x)
        return function(x, along, bool(call.attr("keepdims", 1)))


def _same(x: Tensor) -> Tensor:
    return x


def _product(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = torch.prod(x, axis, keepdim=keep, dtype=x.dtype)
    return x


def _sum(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return torch.sum(x, axes, keepdim=keep, dtype=x.dtype)


def _mean(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    if x.is_floating_point():
        return torch.mean(x, axes, keepdim=keep)
    return torch.div(_sum(x, axes, keep), math.prod(x.shape[axis] for axis in axes), rounding_mode="trunc")


def _log_sum_exp(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    return torch.logsumexp(x if x.is_floating_point() else x.to(torch.float64), axes, keepdim=keep).to(x.dtype)


def _extreme(function: Callable[..., Tensor]) -> Callable[[Tensor, list[int], bool], Tensor]:
    def run(x: Tensor, axes: list[int], keep: bool) -> Tensor:
        if any(x.shape[axis] == 0 for axis in axes):
            sizes = [1 if at in axes else size for at, size in enumerate(x.shape) if keep or at not in axes]
            return torch.full(sizes, _of_nothing(function, x.dtype), dtype=x.dtype)
        if x.dtype == torch.bool:
            return function(x.to(torch.uint8), axes, keepdim=keep).bool()
        return function(x, axes, keepdim=keep)

    return run


def _of_nothing(function: Callable[..., Tensor], dtype: torch.dtype) -> Any:
    """Return the extreme value of no elements, which any element would replace."""
    largest = function is torch.amin
    if dtype == torch.bool:
        return largest
    if dtype.is_floating_point:
        return math.inf if largest else -math.inf
    return torch.iinfo(dtype).max if largest else torch.iinfo(dtype).min


def _root(x: Tensor) -> Tensor:
    return torch.sqrt(x) if x.is_floating_point() else torch.sqrt(x.to(torch.float64)).to(x.dtype)


def _logarithm(x: Tensor) -> Tensor:
    return torch.log(x) if x.is_floating_point() else torch.log(x.to(torch.float64)).to(x.dtype)


_reduction("ReduceSum", _sum, _same)
_reduction("ReduceMean", _mean, _same)
_reduction("ReduceProd", _product, _same)
_reduction("ReduceMax", _extreme(torch.amax), _same)
_reduction("ReduceMin", _extreme(torch.amin), _same)
_reduction("ReduceL1", lambda x, axes, keep: _sum(torch.abs(x), axes, keep), torch.abs)
_reduction("ReduceL2", lambda x, axes, keep: _root(_sum(x * x, axes, keep)), torch.abs)
_reduction("ReduceSumSquare", lambda x, axes, keep: _sum(x * x, axes, keep), torch.square)
_reduction("ReduceLogSum", lambda x, axes, keep: _logarithm(_sum(x, axes, keep)), _logarithm)
_reduction("ReduceLogSumExp", _log_sum_exp, _same)


def _argument(name: str, function: Callable[..., Tensor]) -> None:
    @onnx_op(name)
    def run(call: NodeCall, x: Tensor) -> Tensor:
        axis, keep = call.attr("axis", 0), bool(call.attr("keepdims", 1))
        if not call.attr("select_last_index", 0):
            return function(x, dim=axis, keepdim=keep)
        return x.shape[axis] - 1 - function(x.flip(axis), dim=axis, keepdim=keep)


_argument("ArgMax", torch.argmax)
_argument("ArgMin", torch.argmin)


@onnx_op("TopK")
def top_k(call: NodeCall, x: Tensor, k: Tensor | None = None) -> Any:
    count = int(k) if k is not None else call.attr("k")
    axis, largest = call.attr("axis", -1), bool(call.attr("largest", 1))
    # equal elements: the one with the lower index comes first
    values, places = torch.sort(x, dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, count), places.narrow(axis, 0, count)


@onnx_op("Hardmax")
def hardmax(call: NodeCall, x: Tensor) -> Tensor:
    def run(rows: Tensor, axis: int) -> Tensor:
        places = torch.argmax(rows, axis, keepdim=True)
        return torch.zeros_like(rows).scatter(axis, places, 1)

    return _along(call, x, run)


def _along(call: NodeCall, x: Tensor, function: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Apply a function along an axis. Before opset 13 these operators worked on a matrix, made of all axes before the
    given one and all from it on."""
    if call.opset >= 13:
        return function(x, call.attr("axis", -1))
    axis = call.attr("axis", 1) % max(x.dim(), 1)
    flat = x.reshape(math.prod(x.shape[:axis]), -1)
    return function(flat, 1).reshape(x.shape)


@onnx_op("Softmax")
def softmax(call: NodeCall, x: Tensor) -> Tensor:
    return _along(call, x, torch.softmax)


@onnx_op("LogSoftmax")
def log_softmax(call: NodeCall, x: Tensor) -> Tensor:
    return _along(call, x, torch.log_softmax)


def _running(x: Tensor, axis: int, call: NodeCall, function: Callable[[Tensor, int], Tensor], first: float) -> Tensor:
    x = x.flip(axis) if call.attr("reverse", 0) else x
    made = function(x, axis)
    if call.attr("exclusive", 0):
        start = torch.full_like(made.narrow(axis, 0, 1), first)
        made = torch.cat((start, made.narrow(axis, 0, made.shape[axis] - 1)), axis)
    return made.flip(axis) if call.attr("reverse", 0) else made


@onnx_op("CumSum")
def cumulative_sum(call: NodeCall, x: Tensor, axis: Tensor) -> Tensor:
    return _running(x, int(axis), call, lambda v, a: torch.cumsum(v, a, dtype=x.dtype), 0)


@onnx_op("CumProd")
def cumulative_product(call: NodeCall, x: Tensor, axis: Tensor) -> Tensor:
    return _running(x, int(axis), call, lambda v, a: torch.cumprod(v, a, dtype=x.dtype), 1)
