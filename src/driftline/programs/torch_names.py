"""Writes torch's functions and values as text: functions by their public paths, the rest as literals.

Runs in a worker: it imports torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import torch

# Where functions are looked for, the most readable path first.
_SPACES = (
    "torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.masked",
    "torch.signal.windows", "torch.sparse", "torch.Tensor", "torch._C._nn",
)  # fmt: skip


class Unwritable(Exception):
    """Raised for a value that cannot be written as Python text."""


def path_of(function: Any) -> str | None:
    """Return a function's public path: `torch.nn.functional.pad`; `.view` for a method, `.T` for a property; else
    None."""
    if getattr(function, "__name__", "") == "__get__":
        return f".{function.__self__.__name__}"
    if type(function).__name__ in ("OpOverload", "OpOverloadPacket"):
        return f"torch.ops.{str(function).replace('::', '.')}"
    return _paths().get((function, getattr(function, "__name__", "")))


@lru_cache(1)
def _paths() -> dict[tuple[Any, str], str]:
    """Return the path of every function of torch, by function and own name (`torch.mm` and `torch.dsmm` are equal). Of
    several paths the one that ends in that name wins, then a public one."""
    found: dict[tuple[Any, str], str] = {}
    for space in _SPACES:
        holder: Any = torch
        for part in space.split(".")[1:]:
            holder = getattr(holder, part)
        values = {name: getattr(holder, name, None) for name in dir(holder)}
        own = {name: getattr(value, "__name__", "") == name for name, value in values.items()}
        for name in sorted(values, key=lambda name: (not own[name], name.startswith("_"), name)):
            value = values[name]
            if callable(value) and not isinstance(value, type) and isinstance(value, Hashable):
                path = f".{name}" if space == "torch.Tensor" else f"{space}.{name}"
                found.setdefault((value, getattr(value, "__name__", "")), path)
    return found


def literal(value: Any, name_of: Callable[[Any], str | None]) -> str:
    """Return Python text for an argument. `name_of` returns the name of a tensor or graph node that has one."""
    if (name := name_of(value)) is not None:
        return name

    def inner(value: Any) -> str:
        return literal(value, name_of)

    if isinstance(value, bool) or value is None or value is Ellipsis:
        return "..." if value is Ellipsis else repr(value)
    if type(value) in (int, str):
        return repr(value)
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else f'float("{float(value)}")'
    if isinstance(value, complex):
        return f"complex({inner(value.real)}, {inner(value.imag)})"
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value)
    if isinstance(value, torch.device):
        return f'torch.device("{value}")'
    if isinstance(value, torch.Size):
        return inner(tuple(value))
    if isinstance(value, list):
        return f"[{', '.join(map(inner, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(inner, value))}{',' * (len(value) == 1)})"
    if isinstance(value, slice):
        return f"slice({', '.join(inner(v) for v in (value.start, value.stop, value.step))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{inner(k)}: {inner(v)}' for k, v in value.items())}}}"
    raise Unwritable(f"{type(value).__name__} cannot be written as text")
