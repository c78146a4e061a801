"""Limits on the rank and sizes of tensors, and on the length of reductions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from driftline.hardware.constraint import Broken, Constraint, register_constraint, setting, whole_number
from driftline.hardware.facts import NodeFacts


@register_constraint("limits")
@dataclass(frozen=True)
class LimitsConstraint(Constraint):
    """Limits the number of dimensions of a tensor, and the size of each dimension."""

    max_rank: int | None = setting(whole_number, "dimensions that a tensor may have", default=None)
    max_dim: int | None = setting(whole_number, "the largest size of one dimension", default=None)

    def broken_by(self, node: NodeFacts) -> Iterator[Broken]:
        for tensor in self.tensors(node):
            rank, largest = len(tensor.shape), max(tensor.shape, default=0)
            if self.max_rank is not None and rank > self.max_rank:
                yield Broken(
                    f"{tensor} has {rank} dimensions", f"at most {self.max_rank}", "dimensions joined by reshape"
                )
            if self.max_dim is not None and largest > self.max_dim:
                parts = -(-largest // self.max_dim)
                yield Broken(
                    f"{tensor} has a size of {largest}", f"at most {self.max_dim}", f"split into {parts} parts"
                )


@register_constraint("reduction")
@dataclass(frozen=True)
class ReductionConstraint(Constraint):
    """Limits how many elements are reduced to one element of a result, by a sum, mean, softmax or matrix product."""

    max_length: int = setting(whole_number, "the longest reduction", default=4096)

    def broken_by(self, node: NodeFacts) -> Iterator[Broken]:
        if node.reduced > self.max_length:
            parts = -(-node.reduced // self.max_length)
            value = f"{node.reduced} elements go into one element of the result"
            yield Broken(value, f"at most {self.max_length}", f"{parts} partial sums")
