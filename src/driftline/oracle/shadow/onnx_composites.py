"""ONNX operators that are played step by step, each step with its own rounding error.

A mean or a norm that is computed once and used by many elements has one error that they share; a state has an error
that is carried on. No elementwise amplitude can say either, so these operators are written out here. They also stand in
for the reference evaluator where that departs from the standard: BatchNormalization before opset 14, LpNormalization
with p=1, and recurrent operators with activations, clipping or sequence lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.noise import NoiseSource, stored, summed, together


@dataclass(frozen=True)
class Steps:
    """Arithmetic in which every step may round: without a source of noise, none does."""

    dtype: str
    arithmetic: Arithmetic
    noise: NoiseSource | None

    def round(self, result: Array) -> Array:
        """A sum, product or quotient of two numbers."""
        return self._disturbed(result, lambda: stored(result, self.arithmetic.unit(self.dtype)))

    def function(self, result: Array, through: float = 0.0) -> Array:
        """A transcendental function, perhaps computed by way of a number of the size `through`."""
        return self._disturbed(result, lambda: self.arithmetic.transcendental(self.dtype) * (np.abs(result) + through))

    def dot(self, left: Array, right: Array) -> Array:
        result = left @ right
        return self._disturbed(result, lambda: self._dot_size(left, right, result))

    def sum(self, x: Array, axes: tuple[int, ...]) -> Array:
        result = np.sum(x, axis=axes, keepdims=True)
        count = float(x.size / max(result.size, 1))
        unit = self.arithmetic.accumulator(self.dtype)
        return self._disturbed(
            result,
            lambda: together(
                summed(result, np.sum(np.square(x), axis=axes, keepdims=True), count, unit),
                stored(result, self.arithmetic.unit(self.dtype)),
            ),
        )

    def mean(self, x: Array, axes: tuple[int, ...]) -> Array:
        count = max(math.prod(x.shape[a] for a in axes), 1)
        return self.sum(x / count, axes)

    def _dot_size(self, left: Array, right: Array, result: Array) -> Array:
        squares = np.square(left) @ np.square(right)
        size = summed(result, squares, float(left.shape[-1]), self.arithmetic.accumulator(self.dtype))
        factors = 2 * self.arithmetic.product(self.dtype) * np.sqrt(squares)
        return together(size, factors, stored(result, self.arithmetic.unit(self.dtype)))

    def _disturbed(self, result: Array, amplitude: Callable[[], Array]) -> Array:
        if self.noise is None:
            return result
        return self.noise.disturb(result, amplitude() + self.arithmetic.tiny(self.dtype), self.dtype)


Composite = Callable[[Steps, Any, list[Any], dict[str, Any]], tuple[Array, ...]]


def _per_channel(value: Array, like: Array) -> Array:
    return value.reshape(-1, *(1,) * (like.ndim - 2))


def _normalised(steps: Steps, x: Array, mean: Array, variance: Array, scale: Array, bias: Array, epsilon: float) -> Array:
    """scale * (x - mean) / sqrt(variance + epsilon) + bias, computed as it is often fused: one factor, one addend."""
    factor = steps.round(scale / steps.function(np.sqrt(steps.round(variance + epsilon))))
    addend = steps.round(bias - steps.round(mean * factor))
    return steps.round(steps.round(x * factor) + addend)


def _variance(steps: Steps, x: Array, mean: Array, axes: tuple[int, ...]) -> Array:
    """One pass or two: both are legal, and the error of one pass grows with the mean square."""
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


def _instance_normalization(steps: Steps, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Array, ...]:
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
        norm = steps.function(np.sqrt(steps.sum(steps.round(np.square(x)), axes)))
    return (np.where(norm == 0, 0.0, steps.round(x / np.where(norm == 0, 1.0, norm))),)


def _shifted_exponentials(steps: Steps, x: Array, axes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """x - max, its exponentials, and their sum; the maximum may be any number near it, so it is not disturbed."""
    largest = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    below = steps.round(x - shift)
    exponentials = steps.function(np.exp(below))
    return shift, exponentials, steps.sum(exponentials, axes)


def _softmax(steps: Steps, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Array, ...]:
    """Before opset 13, where it is no function: over everything from the axis on."""
    (x,) = inputs
    axis = attributes.get("axis")
    first = 1 if axis is None else int(axis) % x.ndim
    shift, exponentials, total = _shifted_exponentials(steps, x, tuple(range(first, x.ndim)))
    if node.op_type == "Softmax":
        return (steps.round(exponentials / total),)
    return (steps.round(steps.round(x - shift) - steps.function(np.log(total))),)


def _log_sum_exp(steps: Steps, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> tuple[Array, ...]:
    """As a function of the standard it computes in double, which no implementation does for smaller types."""
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


COMPOSITES: dict[str, Composite] = {
    "BatchNormalization": _batch_normalization,
    "InstanceNormalization": _instance_normalization,
    "LpNormalization": _lp_normalization,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "ReduceLogSumExp": _log_sum_exp,
}


def is_composite(node: Any, opset: int) -> bool:
    """Is the node played step by step? Old forms with other meanings are left to the evaluator."""
    if node.op_type == "BatchNormalization":
        return opset >= 9 and (opset >= 14 or len(node.output) == 1)
    if node.op_type in ("Softmax", "LogSoftmax"):
        return opset < 13
    return node.op_type in COMPOSITES
