"""Detects torch programs whose author differentiates them; their gradients are compared by default."""

from __future__ import annotations

import sys
from typing import Any

from driftline.core.structure import flatten
from driftline.programs.live import LiveProgram


def asks_for_gradients(live: LiveProgram) -> bool:
    """True if an example input requires a gradient, or a module in training mode has a parameter that does. A module in
    evaluation mode is meant for inference."""
    return has_differentiated_input(live) or trains(live.function)


def has_differentiated_input(live: LiveProgram) -> bool:
    """True if an example input requires a gradient."""
    leaves = flatten(live.arguments, "input").values()
    return any(getattr(leaf, "requires_grad", False) is True for leaf in leaves)


def trains(function: Any) -> bool:
    """True for a module in training mode with a parameter that requires a gradient."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(function, torch.nn.Module) or not function.training:
        return False
    return any(parameter.requires_grad for parameter in function.parameters())
