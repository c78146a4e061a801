"""Quantised models: bytes with a scale and a zero point."""

from __future__ import annotations

import torch

from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family
from driftline.patterns.inductor.invert.wish import Wish

_RANGES = {torch.uint8: (0, 255), torch.int8: (-128, 127)}


@family("quantize_per_tensor")
def quantize_per_tensor(call: PatternCall) -> None:
    call.tensor("input", Wish(call.wish.shape, torch.float32))
    _scale(call)
    dtype = call.value("dtype", torch.uint8, torch.uint8, torch.int8)
    call.value("quant_min", _RANGES[dtype][0])
    call.value("quant_max", _RANGES[dtype][1])


@family("dequantize_per_tensor")
def dequantize_per_tensor(call: PatternCall) -> None:
    value = call.tensor("input", Wish(call.wish.shape, call.bench.choose(torch.uint8, torch.uint8, torch.int8)))
    _scale(call)
    _range_of(call, value)
    if call.wish.dtype in (torch.bfloat16, torch.float16):
        call.value("out_dtype", call.wish.dtype)


@family("dequantize_per_channel")
def dequantize_per_channel(call: PatternCall) -> None:
    value = call.tensor("input", Wish(call.wish.shape, torch.int8, constant=True))
    channels = (value.shape[0],)
    call.tensor("scales", Wish(channels, torch.float32, constant=True, fill="positive"))
    call.tensor("zero_points", Wish(channels, torch.int64, constant=True, fill="zeros"))
    call.value("axis", 0)
    _range_of(call, value)


def _scale(call: PatternCall) -> None:
    if {p.name: p.kind for p in call.parameters}["scale"] == "tensor":
        call.tensor("scale", Wish((), torch.float32, fill="0.05"))
        call.tensor("zero_point", Wish((), torch.int64, fill="2"))
    else:
        call.value("scale", 0.05)
        call.value("zero_point", 2)


def _range_of(call: PatternCall, value: torch.Tensor) -> None:
    low, high = _RANGES.get(value.dtype, _RANGES[torch.uint8])
    call.value("quant_min", low)
    call.value("quant_max", high)
    call.value("dtype", value.dtype)
