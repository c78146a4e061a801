"""Batch norm after a convolution, and einsum."""

from __future__ import annotations

import torch

from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family
from driftline.patterns.inductor.invert.wish import Wish


@family("batch_norm")
def batch_norm(call: PatternCall) -> None:
    inverter, channels = call.inverter, 4
    image, weight = inverter.leaf(Wish((2, 3, 8, 8))), inverter.parameter((channels, 3, 3, 3))
    function = torch.ops.aten.conv2d.default if isinstance(call.target, torch._ops.OpOverload) else torch.conv2d
    bias = inverter.parameter((channels,))
    call.found["input"] = call.bench.call("call_function", function, (image, weight, bias), {})
    for name, fill in {
        "running_mean": "normal",
        "running_var": "positive",
        "weight": "normal",
        "bias": "normal",
    }.items():
        call.found[name] = inverter.parameter((channels,), fill)
    call.value("training", False)
    call.value("momentum", 0.1)
    call.value("eps", 1e-5)
    if any(parameter.name == "cudnn_enabled" for parameter in call.parameters):
        call.value("cudnn_enabled", False)


@family("einsum")
def einsum(call: PatternCall) -> None:
    equation, left, right = call.bench.choose(
        ("bni,bnio->bno", (4, 3, 5), (4, 3, 5, 2)), ("bi,bio->bo", (4, 5), (4, 5, 2)), ("ij,jk->ik", (4, 5), (5, 3))
    )
    call.value("equation", equation)
    call.tensor("left", Wish(left))
    call.tensor("right", Wish(right))
