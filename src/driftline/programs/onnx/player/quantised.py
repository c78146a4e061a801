"""The player's quantised operators: linear quantisation, and products of integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from driftline.programs.onnx.player.call import FOUR_BITS, MICROSOFT, NodeCall, Unplayable, onnx_op, torch_dtype
from driftline.programs.onnx.player.convolution import convolution
from driftline.programs.onnx.player.elementwise import cast_to
from driftline.programs.onnx.player.literals import four_bits


def _range(dtype: torch.dtype, element: int = 0) -> tuple[int, int]:
    return FOUR_BITS.get(element) or (torch.iinfo(dtype).min, torch.iinfo(dtype).max)


def _spread(parameter: Tensor, like: Tensor, axis: int, block: int) -> Tensor:
    """Return a scale or zero point in a shape that broadcasts to the tensor `like`."""
    if parameter.dim() == 0 or (parameter.numel() == 1 and parameter.dim() <= 1):
        return parameter.reshape(())
    axis = axis % like.dim()
    if block:
        return parameter.repeat_interleave(block, dim=axis).narrow(axis, 0, like.shape[axis])
    if parameter.dim() > 1:
        return parameter
    return parameter.reshape([-1 if at == axis else 1 for at in range(like.dim())])


@onnx_op("QuantizeLinear")
@onnx_op("QuantizeLinear", domain=MICROSOFT)
def quantise(call: NodeCall, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis, block = call.attr("axis", 1), call.attr("block_size", 0)
    element = call.attr("output_dtype", 0) or (four_bits(zero) if zero is not None else 0)
    dtype = zero.dtype if zero is not None else torch_dtype(element) if element else torch.uint8
    steps = _spread(scale, x, axis, block)
    if dtype.is_floating_point:
        return cast_to(call, x / steps, dtype)
    codes = torch.round(x.to(steps.dtype) / steps)
    if zero is not None:
        codes = codes + _spread(zero.to(torch.int32), x, axis, block)
    return torch.clamp(codes, *_range(dtype, element)).to(dtype)


@onnx_op("DequantizeLinear")
@onnx_op("DequantizeLinear", domain=MICROSOFT)
def dequantise(call: NodeCall, codes: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    axis, block = call.attr("axis", 1), call.attr("block_size", 0)
    if codes.dtype.is_floating_point:
        return codes.to(scale.dtype) * _spread(scale, codes, axis, block)
    whole = codes.to(torch.int32)
    if zero is not None:
        whole = whole - _spread(zero.to(torch.int32), codes, axis, block)
    return whole.to(scale.dtype) * _spread(scale, codes, axis, block)


@onnx_op("DynamicQuantizeLinear")
def dynamic_quantise(call: NodeCall, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    low = torch.clamp(torch.amin(x) if x.numel() else x.new_zeros(()), max=0)
    high = torch.clamp(torch.amax(x) if x.numel() else x.new_zeros(()), min=0)
    scale = (high - low) / 255
    zero = torch.clamp(torch.round(-low / scale), 0, 255)
    codes = torch.clamp(torch.round(x / scale) + zero, 0, 255)
    return codes.to(torch.uint8), scale, zero.to(torch.uint8)


def _centred(x: Tensor, zero: Tensor | None, *, rows: bool) -> Tensor:
    whole = x.to(torch.int32)
    if zero is None:
        return whole
    zero = zero.to(torch.int32)
    if zero.dim() == 1 and zero.numel() > 1:
        zero = zero.unsqueeze(-1) if rows else zero
    return whole - zero


@onnx_op("MatMulInteger")
def matmul_integer(
    call: NodeCall, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    return torch.matmul(_centred(a, a_zero, rows=True), _centred(b, b_zero, rows=False))


@onnx_op("ConvInteger")
def convolution_integer(
    call: NodeCall, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
) -> Tensor:
    """Convolve integers in float64, which represents them exactly: torch has no integer convolution."""
    whole = _centred(x, x_zero, rows=True)
    weights = w.to(torch.int32)
    if w_zero is not None:
        zero = w_zero.to(torch.int32)
        weights = weights - (zero.reshape(-1, *[1] * (w.dim() - 1)) if zero.numel() > 1 else zero)
    return torch.round(convolution(call, whole.to(torch.float64), weights.to(torch.float64))).to(torch.int32)


def requantised(total: Tensor, factor: Tensor, zero: Tensor) -> Tensor:
    """Multiply integers by a scale and quantise the result."""
    codes = torch.round(total.to(factor.dtype) * factor) + zero.to(torch.int32)
    return torch.clamp(codes, *_range(zero.dtype)).to(zero.dtype)


@dataclass(frozen=True)
class ProductInputs:
    """The inputs of QLinearMatMul, and the first inputs of QLinearConv: codes with their scales and zero points."""

    a: Tensor
    a_scale: Tensor
    a_zero: Tensor
    b: Tensor
    b_scale: Tensor
    b_zero: Tensor
    scale: Tensor  # of the result
    zero: Tensor


@dataclass(frozen=True)
class ConvolutionInputs(ProductInputs):
    """The inputs of QLinearConv: `a` is convolved with the weights `b`."""

    bias: Tensor | None = None


@onnx_op("QLinearMatMul", inputs=ProductInputs)
def quantised_matmul(call: NodeCall, given: ProductInputs) -> Tensor:
    total = torch.matmul(_centred(given.a, given.a_zero, rows=True), _centred(given.b, given.b_zero, rows=False))
    a_scale, scale = given.a_scale, given.scale
    if scale.numel() > 1 or given.zero.numel() > 1:
        raise Unplayable("QLinearMatMul whose result has several scales")
    rows = a_scale.unsqueeze(-1) if a_scale.dim() == 1 and a_scale.numel() > 1 else a_scale
    return requantised(total, rows * given.b_scale / scale, given.zero)


@onnx_op("QLinearConv", inputs=ConvolutionInputs)
def quantised_convolution(call: NodeCall, given: ConvolutionInputs) -> Tensor:
    total = convolution_integer(call, given.a, given.b, given.a_zero, given.b_zero)
    shape = [1, -1, *[1] * (given.a.dim() - 2)]
    if given.bias is not None:
        total = total + given.bias.reshape(shape)
    weights = given.b_scale.reshape(shape) if given.b_scale.numel() > 1 else given.b_scale.reshape(())
    return requantised(total, given.a_scale * weights / given.scale, given.zero)


def _through_floats(function: Any) -> Any:
    """Return a contrib operator that runs its float form between DequantizeLinear and QuantizeLinear."""

    def run(call: NodeCall, *inputs: Tensor) -> Tensor:
        if len(inputs) % 3 != 2 or any(value is None for value in inputs):
            raise Unplayable(f"{call.op_type} without all its zero points")
        *operands, scale, zero = inputs
        plain = NodeCall("", "", call.opset, {"axis": -1}, call.outputs)
        given = [dequantise(plain, *operands[at : at + 3]) for at in range(0, len(operands), 3)]
        return quantise(plain, function(call, *given), scale, zero)

    return run


for _name, _function in {
    "QLinearAdd": lambda call, a, b: a + b,
    "QLinearMul": lambda call, a, b: a * b,
    "QLinearSigmoid": lambda call, x: torch.sigmoid(x),
    "QLinearLeakyRelu": lambda call, x: torch.where(x < 0, call.attr("alpha", 0.01) * x, x),
}.items():
    onnx_op(_name, domain=MICROSOFT)(_through_floats(_function))
