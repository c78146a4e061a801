"""Operators that create tensors."""

from __future__ import annotations

import torch

from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family


@family("full")
def full(call: PatternCall) -> None:
    call.value("size", list(call.wish.shape or call.sizes.matrix))
    call.value("fill_value", 1, 0, 2.0)
    call.value("dtype", call.bench.dtype, torch.int64)


@family("rand", "randn")
def random(call: PatternCall) -> None:
    call.value("size", list(call.sizes.matrix))


@family("randint")
def randint(call: PatternCall) -> None:
    call.value("low", 0)
    call.value("high", 10)
    call.value("size", list(call.sizes.matrix))


@family("iota")
def iota(call: PatternCall) -> None:
    call.value("length", 8)
    call.value("start", 0)
    call.value("step", 1)
    call.value("dtype", torch.int64)
    call.value("device", torch.device("cpu"))
    call.value("requires_grad", False)
