"""The constraint that sizes are multiples of an alignment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from driftline.hardware.constraint import Broken, Constraint, register_constraint, setting, whole_number
from driftline.hardware.facts import NodeFacts, TensorFacts


def _dimensions(value: Any) -> tuple[int, ...] | None:
    if value == "all":
        return None
    items = list(value) if isinstance(value, (list, tuple)) else []
    if not items or not all(isinstance(one, int) and not isinstance(one, bool) for one in items):
        raise ValueError(f"must be 'all' or a list of dimensions such as [-1] or [0, -1], not {value!r}")
    return tuple(items)


@register_constraint("shape")
@dataclass(frozen=True)
class ShapeConstraint(Constraint):
    """Sizes must be multiples of the alignment: in all dimensions, or in those that are named (-1 is the last)."""

    alignment: int = setting(whole_number, "what a size must be a multiple of", default=8)
    dims: tuple[int, ...] | None = setting(
        _dimensions, "the dimensions, such as [-1, -2]; 'all' if not set", default=None
    )

    def broken_by(self, node: NodeFacts) -> Iterator[Broken]:
        for tensor in self.tensors(node):
            off = [(at, size) for at, size in self._sizes(tensor) if size % self.alignment]
            if off:
                at, size = off[0]
                value = f"{tensor} has size {size} in dimension {at}"
                padded = list(tensor.shape)
                for at, size in off:
                    padded[at] = -(-size // self.alignment) * self.alignment
                yield Broken(value, f"multiples of {self.alignment}", f"padded to {padded}")

    def _sizes(self, tensor: TensorFacts) -> Iterator[tuple[int, int]]:
        rank = len(tensor.shape)
        chosen = range(rank) if self.dims is None else sorted({d % rank for d in self.dims if -rank <= d < rank})
        return ((at, tensor.shape[at]) for at in chosen)
