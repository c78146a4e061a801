"""The arguments of an operator's implementation, and the table of all implementations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch

Value = Any  # a tensor, a list of tensors (a sequence), or None (an optional input that is left out)


class Unplayable(Exception):
    """Raised for an operator that the player cannot run; the message names it."""


@dataclass(frozen=True)
class NodeCall:
    """One node to run: its attributes, the opset that defines it, and its requested results."""

    op_type: str
    domain: str
    opset: int
    attributes: Mapping[str, Any]
    outputs: tuple[str, ...]
    play_block: Callable[..., list[Value]] = field(
        default=lambda *_: [], repr=False
    )  # (inner graph, inputs) -> outputs

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def ints(self, name: str, default: list[int] | None = None) -> list[int] | None:
        given = self.attributes.get(name)
        return default if given is None else [int(item) for item in given]

    def wants(self, index: int) -> bool:
        """True if the result at this index is requested."""
        return index < len(self.outputs) and bool(self.outputs[index])


Implementation = Callable[..., Any]
OPERATORS: dict[tuple[str, str], Implementation] = {}
MICROSOFT = "com.microsoft"


def onnx_op(
    *names: str, domain: str = "", inputs: type[Any] | None = None
) -> Callable[[Implementation], Implementation]:
    """Decorator: register `function(call, *inputs)` for operators; with a dataclass `inputs`, `function(call,
    given)`."""

    def register(function: Implementation) -> Implementation:
        for name in names:
            OPERATORS[domain, name] = _given(function, inputs) if inputs else function
        return function

    return register


def _given(function: Implementation, inputs: type[Any]) -> Implementation:
    """Return an implementation that gets a node's inputs as a dataclass, and raises for inputs without a field."""
    known = len(fields(inputs))

    def run(call: NodeCall, *given: Value) -> Any:
        if any(value is not None for value in given[known:]):
            raise Unplayable(f"{call.op_type} with more than {known} inputs")
        return function(call, inputs(*given[:known]))

    return run


_NAMES = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 4: torch.uint16, 5: torch.int16, 6: torch.int32, 7: torch.int64,
    9: torch.bool, 10: torch.float16, 11: torch.float64, 12: torch.uint32, 13: torch.uint64, 14: torch.complex64,
    15: torch.complex128, 16: torch.bfloat16, 17: torch.float8_e4m3fn, 19: torch.float8_e5m2,
    # four bits travel as eight, with the same numbers
    21: torch.uint8, 22: torch.int8,
}  # fmt: skip

FOUR_BITS = {21: (0, 15), 22: (-8, 7)}  # ONNX element type -> its range


def torch_dtype(element: int) -> torch.dtype:
    """Return the torch dtype of an ONNX element type."""
    try:
        return _NAMES[element]
    except KeyError:
        raise Unplayable(f"tensors of ONNX type {element}") from None


def integers(value: torch.Tensor | None) -> list[int] | None:
    """Return a tensor of sizes, axes or counts as Python integers; None for None."""
    return None if value is None else [int(item) for item in value.reshape(-1).tolist()]
