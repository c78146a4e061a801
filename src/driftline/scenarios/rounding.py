"""Moves every floating-point result of an eager run by up to one rounding step, to find out what rounding may change.
Runs in a worker."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Operators that move numbers or choose among them, and do not round.
_EXACT = re.compile(
    r"copy|clone|detach|view|slice|select|index|gather|stack|expand|permute|transpose|empty|zeros|ones|full|arange|item"
    r"|where|rand|dropout|bernoulli|fill|tensor|sort|topk|floor|ceil|round|sign$|squeeze|pad"
    r"|\b(cat|relu|neg|abs|max|min|amax|amin|maximum|minimum|clamp|argmax|argmin)$"
)


class RoundingNoise(TorchDispatchMode):
    """Moves the results of operators that round, by at most one rounding step and in the same way in every run."""

    supports_higher_order_operators = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        schema = func._schema
        if not _EXACT.search(schema.name) and not any(one.alias_info for one in schema.returns):
            for one in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(one, torch.Tensor) and one.is_floating_point() and one.layout == torch.strided:
                    _move(one)
        return result


def _move(result: torch.Tensor) -> None:
    """Change the result in place, without random numbers, which would disturb the generator of the script."""
    steps = (torch.arange(result.numel()) * 2654435761 % 7 - 3).reshape(result.shape) / 3
    result.copy_(result.double() * (1 + steps * torch.finfo(result.dtype).eps))
