"""ONNX operators that are executed step by step, each step with its own rounding error.

A mean or norm that many elements use has one error that they share, and the error of a state carries over to later
steps. An elementwise amplitude can express neither, so these operators are written out here. They also replace the
reference evaluator where it departs from the standard: Softmax before opset 13, BatchNormalization before opset 14,
LpNormalization with p=1, LRN, and recurrent operators with activations, clipping or sequence lengths.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.noise import WEIGHTS, finite_size
from driftline.oracle.shadow.onnx.pools import POOLS, is_plain_pool
from driftline.oracle.shadow.onnx.steps import Composite, Steps
from driftline.oracle.shadow.onnx.sums import interpolation_error
from driftline.oracle.shadow.onnx.walk import evaluated
from driftline.programs.onnx.recurrent import RECURRENT, run_recurrent


def _per_channel(value: Array, like: Array) -> Array:
    return value.reshape(-1, *(1,) * (like.ndim - 2))


def _normalised(
    steps: Steps, x: Array, mean: Array, variance: Array, scale: Array, bias: Array, epsilon: float
) -> Array:
    """Compute scale * (x - mean) / sqrt(variance + epsilon) + bias in the fused form, with one factor and one addend.
    Overflows of the unfused form, where the quotient is computed before it is scaled, are allowed for."""
    deviation = steps.root(steps.round(variance + epsilon))
    factor = steps.round(scale / deviation)
    addend = steps.round(bias - steps.round(mean * factor))
    on_the_way = ((x - mean) / deviation, x * factor, mean * factor + np.zeros_like(x))
    peak = np.max([finite_size(value) for value in on_the_way], axis=0)
    return steps.overflow(steps.round(steps.round(x * factor) + addend), peak)


def _variance(steps: Steps, x: Array, mean: Array, axes: tuple[int, ...]) -> Array:
    """Compute the variance by one pass over the data. This is legal, and its error grows with the mean square."""
    squares = steps.mean(steps.round(np.square(x)), axes)
    return np.maximum(steps.round(squares - steps.round(np.square(mean))), 0.0)


def _batch_normalization(steps: Steps, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Array, ...]:
    x, scale, bias, mean, variance = inputs[:5]
    epsilon = attributes.get("epsilon", 1e-5)
    scale, bias = _per_channel(scale, x), _per_channel(bias, x)
    if not attributes.get("training_mode"):
        result = _normalised(steps, x, _per_channel(mean, x), _per_channel(variance, x), scale, bias, epsilon)
        return (result,)
    axes = (0, *range(2, x.ndim))
    own_mean = steps.mean(x, axes)
    own_variance = _variance(steps, x, own_mean, axes)
    momentum = attributes.get("momentum", 0.9)
    running = (
        steps.round(steps.round(old * momentum) + steps.round(new.reshape(old.shape) * (1 - momentum)))
        for old, new in ((mean, own_mean), (variance, own_variance))
    )
    result = _normalised(steps, x, own_mean[0], own_variance[0], scale, bias, epsilon)
    return (result, *running)


def _instance_normalization(
    steps: Steps, node: Any, inputs: list[Any], attributes: dict[str, Any]
) -> tuple[Array, ...]:
    x, scale, bias = inputs
    axes = tuple(range(2, x.ndim))
    mean = steps.mean(x, axes)
    variance = _variance(steps, x, mean, axes)
    epsilon = attributes.get("epsilon", 1e-5)
    return (_normalised(steps, x, mean, variance, _per_channel(scale, x), _per_channel(bias, x), epsilon),)


def _lp_normalization(steps: Steps, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Array, ...]:
    (x,) = inputs
    axes = (int(attributes.get("axis", -1)) % x.ndim,)
    if attributes.get("p", 2) == 1:
        norm = steps.sum(np.abs(x), axes)
    else:
        norm = steps.root(steps.sum(steps.round(np.square(x)), axes))
    return (np.where(norm == 0, 0.0, steps.round(x / np.where(norm == 0, 1.0, norm))),)


def _shifted_exponentials(steps: Steps, x: Array, axes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Return the shift (the maximum), exp(x - shift), and the sum of the exponentials. The maximum is not disturbed,
    because any number near it is legal."""
    largest = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    below = steps.round(x - shift)
    exponentials = steps.function(np.exp(below))
    return shift, exponentials, steps.sum(exponentials, axes)


def _softmax(steps: Steps, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Array, ...]:
    """Compute Softmax or LogSoftmax as before opset 13: over all axes from `axis` on."""
    (x,) = inputs
    axis = attributes.get("axis")
    first = 1 if axis is None else int(axis) % x.ndim
    shift, exponentials, total = _shifted_exponentials(steps, x, tuple(range(first, x.ndim)))
    if node.op_type == "Softmax":
        return (steps.round(exponentials / total),)
    return (steps.round(steps.round(x - shift) - steps.function(np.log(total))),)


def _log_sum_exp(steps: Steps, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Array, ...]:
    """Compute ReduceLogSumExp step by step. The standard's function body computes in double, but implementations for
    smaller types do not."""
    x = inputs[0]
    axes = inputs[1] if len(inputs) > 1 else attributes.get("axes")
    if axes is None or not np.asarray(axes).size:
        if attributes.get("noop_with_empty_axes"):
            return (x,)
        axes = range(x.ndim)
    over = tuple(int(a) % max(x.ndim, 1) for a in np.asarray(list(axes)).reshape(-1))
    shift, _, total = _shifted_exponentials(steps, x, over)
    result = steps.round(shift + steps.function(np.log(total)))
    return (result if attributes.get("keepdims", 1) else np.squeeze(result, axis=over),)


def _local_response(steps: Steps, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Array, ...]:
    """Compute LRN: divide by a power of the sum of squares over neighbouring channels."""
    (x,) = inputs
    size = int(attributes["size"])
    before, after = (size - 1) // 2, size // 2
    padded = np.pad(np.square(x), ((0, 0), (before, after), *((0, 0),) * (x.ndim - 2)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, size, axis=1)
    total = steps.sum(windows, (windows.ndim - 1,))[..., 0]
    scale = steps.round(attributes.get("bias", 1.0) + steps.round(attributes.get("alpha", 1e-4) / size * total))
    return (steps.round(x / steps.function(scale ** attributes.get("beta", 0.75))),)


def _running_sum(steps: Steps, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Array, ...]:
    """Compute CumSum. The error of each partial sum carries over to all later ones."""
    x, axis = inputs[0], int(np.asarray(inputs[1]).reshape(-1)[0])
    forward = np.flip(x, axis) if attributes.get("reverse") else x
    partial = np.cumsum(forward, axis)
    errors = np.cumsum(steps.accumulate(partial) - partial, axis)
    result = steps.round(partial + np.where(np.isfinite(errors), errors, 0.0))
    if attributes.get("exclusive"):
        first = [slice(None)] * x.ndim
        first[axis] = slice(0, -1)
        padding = [(0, 0)] * x.ndim
        padding[axis] = (1, 0)
        result = np.pad(result[tuple(first)], padding)
    return (np.flip(result, axis) if attributes.get("reverse") else result,)


def _interpolated(steps: Steps, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Array, ...]:
    """Compute an interpolating Resize. Weights are computed once per index of an axis, so elements at an index share an
    error."""
    (result,) = evaluated(node, inputs, {})
    x = inputs[0]
    for axis, (before, after) in enumerate(zip(x.shape, result.shape, strict=True)):
        if before != after:
            result = steps.shared(result, axis, WEIGHTS)
    return (steps.accumulate(result, interpolation_error(x)),)


COMPOSITES: dict[str, Composite] = {
    **POOLS,
    **dict.fromkeys(RECURRENT, run_recurrent),
    "CumSum": _running_sum,
    "Resize": _interpolated,
    "BatchNormalization": _batch_normalization,
    "InstanceNormalization": _instance_normalization,
    "LRN": _local_response,
    "LpNormalization": _lp_normalization,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "ReduceLogSumExp": _log_sum_exp,
}


def is_composite(node: Any, opset: int) -> bool:
    """True if the node is executed step by step. Older versions of operators with another meaning are left to the
    evaluator."""
    if node.op_type == "BatchNormalization":
        return opset >= 9 and (opset >= 14 or len(node.output) == 1)
    if node.op_type in ("Softmax", "LogSoftmax"):
        return opset < 13
    if node.op_type == "Resize":
        return opset >= 11 and getattr(node, "mode", None) in ("linear", "cubic", b"linear", b"cubic")
    if node.op_type in POOLS:
        return is_plain_pool(node)
    return node.op_type in COMPOSITES
