"""Convolutions, plain and transposed."""

from __future__ import annotations

from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family
from driftline.patterns.inductor.invert.wish import Wish


@family("convolution")
def convolution(call: PatternCall) -> None:
    sizes = call.sizes
    dimensions = sizes.dimensions
    transposed = call.value("transposed", call.inverter.transposed)
    channels = (sizes.channels, sizes.features) if transposed else (sizes.features, sizes.channels)
    weight = call.tensor("weight", Wish((*channels, *(sizes.kernel,) * dimensions), call.wish.dtype, constant=True))
    call.tensor("input", Wish(sizes.image, weight.dtype))
    call.maybe("bias", Wish((weight.shape[1 if transposed else 0],), weight.dtype, constant=True))
    call.value("stride", [1] * dimensions, [2] * dimensions)
    call.value("padding", [0] * dimensions, [weight.shape[2] // 2] * dimensions)
    call.value("dilation", [1] * dimensions)
    call.value("output_padding", [0] * dimensions)
    call.value("groups", 1)
