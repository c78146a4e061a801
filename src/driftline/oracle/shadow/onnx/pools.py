"""Pooling over windows as array operations. The ONNX evaluator visits every window in Python, which is too slow for
many runs. Rare variants (sizes rounded up, indices returned) are left to the evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.shadow.onnx.steps import Composite, Steps


def is_plain_pool(node: Any) -> bool:
    """True if the pool neither rounds sizes up nor returns indices."""
    return not getattr(node, "ceil_mode", 0) and len(node.output) == 1


def _pads(attributes: dict[str, Any], sizes: tuple[int, ...], spans: list[int], strides: list[int]) -> list[Any]:
    """Return the number of elements to add before and after each spatial axis."""
    mode = attributes.get("auto_pad") or "NOTSET"
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode == "VALID":
        return [(0, 0)] * len(sizes)
    if mode == "NOTSET":
        given = list(attributes.get("pads") or [0] * (2 * len(sizes)))
        return list(zip(given[: len(sizes)], given[len(sizes) :], strict=True))
    pads = []
    for size, span, stride in zip(sizes, spans, strides, strict=True):
        missing = max((-(-size // stride) - 1) * stride + span - size, 0)
        smaller, larger = missing // 2, missing - missing // 2
        pads.append((smaller, larger) if mode == "SAME_UPPER" else (larger, smaller))
    return pads


def windows(x: Array, attributes: dict[str, Any], fill: float) -> tuple[Array, tuple[int, ...]]:
    """Return all windows of `x` as additional axes at the end, and the numbers of these axes."""
    kernel = list(attributes["kernel_shape"])
    rank = len(kernel)
    strides = list(attributes.get("strides") or [1] * rank)
    dilations = list(attributes.get("dilations") or [1] * rank)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    around = _pads(attributes, x.shape[2:], spans, strides)
    if attributes.get("ceil_mode"):
        around = [_rounded_up(*one) for one in zip(x.shape[2:], around, spans, strides, strict=True)]
    padding = [(0, 0), (0, 0), *around]
    padded = np.pad(x, padding, constant_values=fill)
    spatial = tuple(range(2, 2 + rank))
    views = np.lib.stride_tricks.sliding_window_view(padded, spans, axis=spatial)
    taken = (slice(None), slice(None), *(slice(None, None, s) for s in strides))
    return views[(*taken, *(slice(None, None, d) for d in dilations))], tuple(range(2 + rank, 2 + 2 * rank))


def _rounded_up(size: int, around: tuple[int, int], span: int, stride: int) -> tuple[int, int]:
    """Lengthen the padding of an axis for a last window that extends beyond it, unless that window starts in the
    padding."""
    before, after = around
    last = -(-(before + size + after - span) // stride) * stride  # start of the last window
    if last >= before + size:
        last -= stride
    return before, max(after, last + span - before - size)


def _max_pool(steps: Steps, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Array, ...]:
    views, axes = windows(inputs[0], attributes, -np.inf)
    return (np.max(views, axis=axes),)


def _average_pool(steps: Steps, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Array, ...]:
    views, axes = windows(inputs[0], attributes, 0.0)
    total = np.squeeze(steps.sum(views, axes), axis=axes)
    if attributes.get("count_include_pad"):
        return (steps.round(total / np.prod(attributes["kernel_shape"])),)
    present, _ = windows(np.ones(inputs[0].shape), attributes, 0.0)
    return (steps.round(total / np.maximum(np.sum(present, axis=axes), 1.0)),)


POOLS: dict[str, Composite] = {"AveragePool": _average_pool, "MaxPool": _max_pool}
