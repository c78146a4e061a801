"""Patterns that contain a call of a submodule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.fx as fx

from driftline.patterns.inductor.invert.wish import NotBuilt, Wish
from driftline.patterns.inductor.placing import placing

if TYPE_CHECKING:
    from driftline.patterns.inductor.invert.inverter import Inverter


def module_call(inverter: Inverter, part: Any) -> fx.Node:
    """Add a batch norm module after the convolution module that the rules look for."""
    if not any(isinstance(fn, type) and issubclass(fn, torch.nn.modules.batchnorm._BatchNorm) for fn in part.fns):
        raise NotBuilt(f"nothing is known about modules of {part.fns[0]}")
    dimensions = inverter.bench.choose(2, 1, 3)
    side = (8,) * dimensions
    image = inverter.leaf(Wish((2, 3, *side)))
    with inverter.bench.fake, placing():
        convolved = torch.empty((2, 4, *(6,) * dimensions))
    inner = inverter.bench.module(f"torch.nn.Conv{dimensions}d(3, 4, 3)", image, convolved)
    return inverter.bench.module(f"torch.nn.BatchNorm{dimensions}d(4)", inner, convolved)
