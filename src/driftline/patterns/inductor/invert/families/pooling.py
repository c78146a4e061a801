"""Pooling over windows of an image."""

from __future__ import annotations

from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family
from driftline.patterns.inductor.invert.wish import Wish


@family("max_pool2d_with_indices", "_low_memory_max_pool_with_offsets")
def max_pool(call: PatternCall) -> None:
    """Choose a window that keeps the operator: Inductor replaces pools with small windows by the low-memory one."""
    sizes = call.sizes
    window = 20 if call.name == "max_pool2d_with_indices" else 2
    side = 2 * window + 4
    call.tensor("self", Wish((sizes.batch, sizes.channels, side, side)))
    # Values that are no defaults: those are dropped from graphs, and then the pattern has too many arguments.
    values = {
        "kernel_size": [window, window],
        "stride": [2, 2],
        "padding": [1, 1],
        "dilation": [1, 1] if call.mentions("ceil_mode") else [2, 2],
        "ceil_mode": True,
    }
    required = {parameter.name for parameter in call.parameters if parameter.required}
    for name, value in values.items():
        if call.mentions(name) or name in required:
            call.value(name, value)
