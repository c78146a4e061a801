"""Convert the arguments of torch calls to JSON and back. The module runs in a worker, since it imports torch.

`{"$": 2}` stands for the third input of the node. What JSON does not know is an object with one letter: a tuple is
`{"t": [...]}`, a dtype or another word of torch `{"w": "float32"}`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx as fx

from driftline.programs.torch_names import Unwritable


def to_json(value: Any, reference: Callable[[fx.Node], Any]) -> Any:
    """Convert an argument to JSON. `reference` converts nodes. Raise `Unwritable` for values without a text."""

    def inner(item: Any) -> Any:
        return to_json(item, reference)

    if isinstance(value, fx.Node):
        return reference(value)
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if isinstance(value, float):
        return value if value - value == 0 else {"f": str(value)}
    if isinstance(value, complex):
        return {"c": [value.real, value.imag]}
    if isinstance(value, tuple):
        return {"t": [inner(item) for item in value]}
    if isinstance(value, list):
        return [inner(item) for item in value]
    if isinstance(value, dict):
        return {"d": {str(key): inner(item) for key, item in value.items()}}
    if isinstance(value, slice):
        return {"s": [inner(value.start), inner(value.stop), inner(value.step)]}
    if value is Ellipsis:
        return {"e": 0}
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return {"w": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"v": str(value)}
    raise Unwritable(f"{type(value).__name__} cannot be written as text")


def from_json(value: Any, of: Callable[[int], Any]) -> Any:
    """Convert JSON back to an argument. `of` returns the operand with an index."""
    if isinstance(value, list):
        return [from_json(item, of) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "$":
        return of(held)
    if kind == "f":
        return float(held)
    if kind == "c":
        return complex(*held)
    if kind == "t":
        return tuple(from_json(item, of) for item in held)
    if kind == "d":
        return {key: from_json(item, of) for key, item in held.items()}
    if kind == "s":
        return slice(*(from_json(item, of) for item in held))
    if kind == "w":
        return getattr(torch, held)
    return torch.device(held) if kind == "v" else Ellipsis
