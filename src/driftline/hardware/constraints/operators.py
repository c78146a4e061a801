"""Operators that the device has, or does not have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from driftline.hardware.constraint import Broken, Constraint, patterns, register_constraint, setting
from driftline.hardware.facts import NodeFacts


@register_constraint("operators")
@dataclass(frozen=True)
class OperatorConstraint(Constraint):
    """Denied operators, and if `allowed` is set, everything but the allowed ones. Names may hold `*`."""

    denied: tuple[str, ...] = setting(patterns, "operators that the device does not have", default=())
    allowed: tuple[str, ...] = setting(patterns, "the only operators that the device has", default=())

    def broken_by(self, node: NodeFacts) -> Iterator[Broken]:
        if not node.is_call:
            return
        if node.matches(self.denied):
            yield Broken("the operator is denied", "operators that are not denied")
        elif self.allowed and not node.matches(self.allowed):
            yield Broken("the operator is not in the list", f"the {len(self.allowed)} names in the list")
