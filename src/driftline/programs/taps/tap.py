"""A tap: a value inside a program that can be inspected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from driftline.core.tensors import ANY_SIZE


@dataclass(frozen=True)
class Tap:
    """A float result of a node that computes something. `position` counts nodes in execution order."""

    value: str  # its name in the graph
    position: int
    op: str
    node: str
    scope: str  # the module that the node belongs to, such as `encoder.layer.3.attention`; empty if unknown
    dtype: str
    shape: tuple[int, ...]
    alive: int = 0  # float values that are still needed behind it: few where a block ends
    returned: bool = False  # it is a result of the program already

    @property
    def size(self) -> int | None:
        """The number of elements, or None if it depends on the values of the inputs."""
        return None if ANY_SIZE in self.shape else prod(self.shape)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "shape": list(self.shape)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Tap:
        return Tap(**{**value, "shape": tuple(value["shape"])})
