"""The player's normalisations."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from driftline.programs.onnx.player.call import NodeCall, onnx_op, torch_dtype


def _per_channel(values: Tensor, x: Tensor) -> Tensor:
    return values.reshape(1, -1, *[1] * (x.dim() - 2))


@onnx_op("BatchNormalization")
def batch_normalisation(call: NodeCall, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Any:
    eps, momentum = call.attr("epsilon", 1e-5), call.attr("momentum", 0.9)
    training = bool(call.attr("training_mode", 0)) if call.opset >= 14 else len(call.outputs) > 1
    if not training:
        inverse = torch.rsqrt(_per_channel(variance, x) + eps)
        return ((x - _per_channel(mean, x)) * inverse * _per_channel(scale, x) + _per_channel(bias, x)).to(x.dtype)
    axes = [0, *range(2, x.dim())]
    batch_mean = x.mean(axes)
    batch_variance = x.var(axes, correction=0)
    made = (x - _per_channel(batch_mean, x)) * torch.rsqrt(_per_channel(batch_variance, x) + eps)
    running_mean = mean * momentum + batch_mean.to(mean.dtype) * (1 - momentum)
    running_variance = variance * momentum + batch_variance.to(variance.dtype) * (1 - momentum)
    answers = (made * _per_channel(scale, x) + _per_channel(bias, x), running_mean, running_variance)
    return tuple(answer.to(x.dtype) if at == 0 else answer for at, answer in enumerate(answers))[: len(call.outputs)]


@onnx_op("InstanceNormalization")
def instance_normalisation(call: NodeCall, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    axes = list(range(2, x.dim()))
    centred = x - x.mean(axes, keepdim=True)
    inverse = torch.rsqrt(x.var(axes, correction=0, keepdim=True) + call.attr("epsilon", 1e-5))
    return centred * inverse * _per_channel(scale, x) + _per_channel(bias, x)


@onnx_op("GroupNormalization")
def group_normalisation(call: NodeCall, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups, channels = call.attr("num_groups"), x.shape[1]
    if scale.numel() != channels:  # before opset 21 there was one for each group
        scale, bias = (v.repeat_interleave(channels // groups) for v in (scale, bias))
    return F.group_norm(x, groups, scale, bias, call.attr("epsilon", 1e-5))


def stashed(x: Tensor, call: NodeCall) -> Tensor:
    """Return x in the type for statistics: float32 unless the node says otherwise, never smaller than its own type."""
    kind = torch_dtype(call.attr("stash_type", 1))
    return x.to(kind) if torch.finfo(kind).bits > torch.finfo(x.dtype).bits else x


@onnx_op("LayerNormalization")
def layer_normalisation(call: NodeCall, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    axis = call.attr("axis", -1) % x.dim()
    axes = list(range(axis, x.dim()))
    wide = stashed(x, call)
    mean = wide.mean(axes, keepdim=True)
    centred = wide - mean
    inverse = torch.rsqrt((centred * centred).mean(axes, keepdim=True) + call.attr("epsilon", 1e-5))
    made = (centred * inverse).to(x.dtype) * scale
    made = made if bias is None else made + bias
    return (made, mean, inverse)[: len(call.outputs)]


def rms_normalised(x: Tensor, scale: Tensor, axes: list[int], eps: float, call: NodeCall) -> tuple[Tensor, Tensor]:
    wide = stashed(x, call)
    inverse = torch.rsqrt((wide * wide).mean(axes, keepdim=True) + eps)
    return (wide * inverse).to(x.dtype) * scale, inverse


@onnx_op("RMSNormalization")
def rms_normalisation(call: NodeCall, x: Tensor, scale: Tensor) -> Tensor:
    axis = call.attr("axis", -1) % x.dim()
    return rms_normalised(x, scale, list(range(axis, x.dim())), call.attr("epsilon", 1e-5), call)[0]


@onnx_op("SimplifiedLayerNormalization")  # a contrib operator of ONNX Runtime in the standard's own domain
def simplified_layer_normalisation(call: NodeCall, x: Tensor, scale: Tensor) -> Any:
    axis = call.attr("axis", -1) % x.dim()
    return rms_normalised(x, scale, list(range(axis, x.dim())), call.attr("epsilon", 1e-5), call)[: len(call.outputs)]


@onnx_op("LpNormalization")
def lp_normalisation(call: NodeCall, x: Tensor) -> Tensor:
    axis, order = call.attr("axis", -1), call.attr("p", 2)
    norm = x.abs().sum(axis, keepdim=True) if order == 1 else torch.sqrt((x * x).sum(axis, keepdim=True))
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


@onnx_op("MeanVarianceNormalization")
def mean_variance_normalisation(call: NodeCall, x: Tensor) -> Tensor:
    axes = call.ints("axes", [0, 2, 3]) or []
    centred = x - x.mean(axes, keepdim=True)
    return centred / (torch.sqrt((x * x).mean(axes, keepdim=True) - torch.square(x.mean(axes, keepdim=True))) + 1e-9)


@onnx_op("LRN")
def local_response_normalisation(call: NodeCall, x: Tensor) -> Tensor:
    size, channels = call.attr("size"), x.shape[1]
    squares = F.pad((x * x).movedim(1, -1), [math.floor((size - 1) / 2), math.ceil((size - 1) / 2)]).movedim(-1, 1)
    total = sum((squares.narrow(1, at, channels) for at in range(1, size)), squares.narrow(1, 0, channels))
    base = call.attr("bias", 1.0) + call.attr("alpha", 1e-4) / size * total
    return x / torch.pow(base, call.attr("beta", 0.75))
