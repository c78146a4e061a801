"""The player's elementwise operators: arithmetic, comparisons, logic, activations, casts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from driftline.programs.onnx.player.call import FOUR_BITS, NodeCall, Unplayable, onnx_op, torch_dtype
from driftline.programs.onnx.player.literals import four_bits
from driftline.programs.onnx.player.torch_ops import through


def _aligned(call: NodeCall, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the operands aligned for broadcasting: before opset 7 the second was broadcast from a given axis."""
    if call.domain or call.opset >= 7 or not call.attr("broadcast"):
        return a, b
    axis = call.attr("axis")
    if axis is None or b.dim() == 0:
        return a, b
    axis = axis % a.dim() if a.dim() else 0
    return a, b.reshape(*b.shape, *[1] * (a.dim() - axis - b.dim()))


def _binary(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    @onnx_op(name)
    def run(call: NodeCall, a: Tensor, b: Tensor) -> Tensor:
        return function(*_aligned(call, a, b))


def _divide(a: Tensor, b: Tensor) -> Tensor:
    if a.is_floating_point() or a.is_complex():
        return a / b
    return torch.div(a, b, rounding_mode="trunc")


for _name, _function in {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": _divide,
    "Equal": torch.eq, "Greater": torch.gt, "GreaterOrEqual": torch.ge, "Less": torch.lt, "LessOrEqual": torch.le,
    "And": torch.logical_and, "Or": torch.logical_or, "Xor": torch.logical_xor,
    "BitwiseAnd": torch.bitwise_and, "BitwiseOr": torch.bitwise_or, "BitwiseXor": torch.bitwise_xor,
}.items():  # fmt: skip
    _binary(_name, _function)


def _unary(name: str, function: Callable[[Tensor], Tensor]) -> None:
    @onnx_op(name)
    def run(call: NodeCall, x: Tensor) -> Tensor:
        return function(x)


for _name, _plain in {
    "Abs": torch.abs, "Neg": torch.neg, "Reciprocal": torch.reciprocal, "Floor": torch.floor, "Ceil": torch.ceil,
    "Sqrt": torch.sqrt, "Exp": torch.exp, "Log": torch.log, "Erf": torch.erf, "Sign": torch.sign,
    "Round": torch.round, "Sin": torch.sin, "Cos": torch.cos, "Tan": torch.tan, "Asin": torch.asin, "Acos": torch.acos,
    "Atan": torch.atan, "Sinh": torch.sinh, "Cosh": torch.cosh, "Asinh": torch.asinh, "Acosh": torch.acosh,
    "Atanh": torch.atanh, "Tanh": torch.tanh, "IsNaN": torch.isnan, "Relu": torch.relu,
    "BitwiseNot": torch.bitwise_not, "Not": torch.logical_not,
}.items():  # fmt: skip
    _unary(_name, _plain)


@onnx_op("Identity")
def identity(call: NodeCall, x: Any) -> Any:
    return [x]  # which may be a sequence or an optional


@onnx_op("Pow")
def power(call: NodeCall, base: Tensor, exponent: Tensor) -> Tensor:
    base, exponent = _aligned(call, base, exponent)
    if base.is_floating_point():
        return torch.pow(base, exponent.to(base.dtype))
    if exponent.is_floating_point():
        return torch.pow(base.to(torch.float64), exponent.to(torch.float64)).to(base.dtype)
    return torch.pow(base, exponent.to(base.dtype))


@onnx_op("Mod")
def modulo(call: NodeCall, a: Tensor, b: Tensor) -> Tensor:
    return torch.fmod(a, b) if call.attr("fmod", 0) else torch.remainder(a, b)


@onnx_op("BitShift")
def bit_shift(call: NodeCall, a: Tensor, by: Tensor) -> Tensor:
    left = call.attr("direction") == b"LEFT"
    return torch.bitwise_left_shift(a, by) if left else torch.bitwise_right_shift(a, by)


@onnx_op("IsInf")
def is_infinite(call: NodeCall, x: Tensor) -> Tensor:
    wanted = torch.zeros(x.shape, dtype=torch.bool)
    if call.attr("detect_positive", 1):
        wanted = wanted | torch.isposinf(x)
    if call.attr("detect_negative", 1):
        wanted = wanted | torch.isneginf(x)
    return wanted


@onnx_op("Where")
def where(call: NodeCall, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.where(condition, a, b)


def _folded(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    @onnx_op(name)
    def run(call: NodeCall, *operands: Tensor) -> Tensor:
        return functools.reduce(function, operands)


for _name, _function in {"Max": torch.maximum, "Min": torch.minimum, "Sum": torch.add}.items():
    _folded(_name, _function)


@onnx_op("Mean")
def mean(call: NodeCall, *operands: Tensor) -> Tensor:
    return functools.reduce(torch.add, operands) / len(operands)


@onnx_op("Clip")
def clip(call: NodeCall, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    if call.opset < 11:
        smallest, largest = call.attr("min"), call.attr("max")
        low = None if smallest is None else torch.tensor(smallest, dtype=x.dtype)
        high = None if largest is None else torch.tensor(largest, dtype=x.dtype)
    # min(max(x, low), high): where the bounds cross, the upper one wins
    if low is not None:
        x = torch.maximum(x, low.to(x.dtype))
    return x if high is None else torch.minimum(x, high.to(x.dtype))


# -- activations -----------------------------------------------------------------------------------------------------


@onnx_op("Sigmoid")
def sigmoid(call: NodeCall, x: Tensor) -> Tensor:
    return through(torch.sigmoid(x), torch.ones_like(x))


@onnx_op("Softplus")
def softplus(call: NodeCall, x: Tensor) -> Tensor:
    # Not torch's own, which is linear beyond a threshold: that would be no exact result in float64.
    return torch.log(1 + torch.exp(-torch.abs(x))) + torch.relu(x)


@onnx_op("Softsign")
def softsign(call: NodeCall, x: Tensor) -> Tensor:
    return x / (1 + torch.abs(x))


def _exponential(x: Tensor, alpha: float) -> Tensor:
    """Return alpha * (exp(x) - 1) for negative x, marked as passing through numbers as large as alpha."""
    negative = torch.clamp(x, max=0)
    return through(alpha * torch.expm1(negative), torch.where(x < 0, abs(alpha), 0.0).to(x.dtype))


@onnx_op("Elu")
def elu(call: NodeCall, x: Tensor) -> Tensor:
    return torch.where(x < 0, _exponential(x, call.attr("alpha", 1.0)), x)


@onnx_op("Selu")
def selu(call: NodeCall, x: Tensor) -> Tensor:
    alpha, gamma = call.attr("alpha", 1.67326319217681884765625), call.attr("gamma", 1.05070102214813232421875)
    return gamma * torch.where(x < 0, _exponential(x, alpha), x)


@onnx_op("Celu")
def celu(call: NodeCall, x: Tensor) -> Tensor:
    alpha = call.attr("alpha", 1.0)
    return torch.relu(x) + torch.where(x < 0, _exponential(x / alpha, alpha), torch.zeros_like(x))


@onnx_op("LeakyRelu")
def leaky_relu(call: NodeCall, x: Tensor) -> Tensor:
    return torch.where(x < 0, call.attr("alpha", 0.01) * x, x)


@onnx_op("PRelu")
def prelu(call: NodeCall, x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x < 0, slope * x, x)


@onnx_op("ThresholdedRelu")
def thresholded_relu(call: NodeCall, x: Tensor) -> Tensor:
    return torch.where(x > call.attr("alpha", 1.0), x, torch.zeros_like(x))


@onnx_op("HardSigmoid")
def hard_sigmoid(call: NodeCall, x: Tensor) -> Tensor:
    return torch.clamp(call.attr("alpha", 0.2) * x + call.attr("beta", 0.5), 0.0, 1.0)


@onnx_op("HardSwish")
def hard_swish(call: NodeCall, x: Tensor) -> Tensor:
    return x * torch.clamp(x / 6 + 0.5, 0.0, 1.0)


@onnx_op("Mish")
def mish(call: NodeCall, x: Tensor) -> Tensor:
    return x * torch.tanh(softplus(call, x))


@onnx_op("Swish")
def swish(call: NodeCall, x: Tensor) -> Tensor:
    return x * sigmoid(call, call.attr("alpha", 1.0) * x)


@onnx_op("Shrink")
def shrink(call: NodeCall, x: Tensor) -> Tensor:
    bias, limit = call.attr("bias", 0.0), call.attr("lambd", 0.5)
    zero = torch.zeros_like(x)
    return torch.where(x < -limit, x + bias, torch.where(x > limit, x - bias, zero)).to(x.dtype)


@onnx_op("Gelu")
def gelu(call: NodeCall, x: Tensor) -> Tensor:
    approximate = "tanh" if call.attr("approximate", b"none") == b"tanh" else "none"
    return F.gelu(x, approximate=approximate)


# -- casts -----------------------------------------------------------------------------------------------------------


@onnx_op("Cast")
def cast(call: NodeCall, x: Tensor) -> Tensor:
    if call.attr("to") in FOUR_BITS:
        raise Unplayable("Cast to four bits")
    return cast_to(call, x, torch_dtype(call.attr("to")))


@onnx_op("CastLike")
def cast_like(call: NodeCall, x: Tensor, like: Tensor) -> Tensor:
    if four_bits(like):
        raise Unplayable("CastLike to four bits")
    return cast_to(call, x, like.dtype)


_EIGHT_BITS = (torch.float8_e4m3fn, torch.float8_e5m2)


def cast_to(call: NodeCall, x: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype == torch.bool and x.dtype != torch.bool:
        return x != 0
    if dtype in _EIGHT_BITS:
        if not call.attr("saturate", 1):
            raise Unplayable("Cast to eight bits that does not saturate")
        largest = torch.finfo(dtype).max
        x = torch.clamp(x.to(torch.float32), -largest, largest)
    return x.to(dtype)
