"""A hardware profile: the name of a device, its constraints, and its arithmetic."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from driftline.core.errors import DriftlineError
from driftline.hardware.arithmetic import DeviceArithmetic
from driftline.hardware.constraint import Constraint, byte_count
from driftline.hardware.constraints.memory import MemoryConstraint
from driftline.hardware.constraints.shape import ShapeConstraint
from driftline.hardware.facts import GraphFacts
from driftline.hardware.violation import Violation

_SWITCHES = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class Profile:
    """A device, reduced to what matters to a program.

    `strict`: a violation is an error, not a warning. `arithmetic`: how the mock computes.
    """

    name: str
    constraints: tuple[Constraint, ...] = ()
    strict: bool = False
    arithmetic: DeviceArithmetic = field(default_factory=DeviceArithmetic)
    description: str = ""

    def violations(self, graph: GraphFacts) -> list[Violation]:
        """Return the violations, by constraint, each in the order of the graph."""
        return [found for constraint in self.constraints for found in constraint.violations(graph)]

    def with_constraints(self, constraints: Sequence[Constraint]) -> Profile:
        for one in constraints:
            if not isinstance(one, Constraint):
                raise DriftlineError(f"constraints: {one!r} is not a Constraint, such as ShapeConstraint(alignment=8).")
        return replace(self, constraints=tuple(constraints))

    def with_alignment(self, alignment: int) -> Profile:
        """Return the profile with this alignment in every shape constraint (or in a new one); 1 removes them."""
        others = tuple(one for one in self.constraints if not isinstance(one, ShapeConstraint))
        if alignment <= 1:
            return replace(self, constraints=others)
        shapes = [one for one in self.constraints if isinstance(one, ShapeConstraint)] or [ShapeConstraint()]
        return replace(self, constraints=(*(replace(one, alignment=alignment) for one in shapes), *others))

    def with_max_memory(self, max_bytes: int) -> Profile:
        """Return the profile with this limit on the bytes of a tensor; limits on live memory stay."""
        others = tuple(one for one in self.constraints if not isinstance(one, MemoryConstraint))
        return replace(self, constraints=(*others, MemoryConstraint(max_bytes=max_bytes)))

    def overridden(self, variables: Mapping[str, str] = os.environ) -> Profile:
        """Return the profile changed by `MOCK_STRICT`, `MOCK_ALIGNMENT` and `MOCK_MAX_MEMORY`, which win over
        arguments."""
        changed = self
        if text := variables.get("MOCK_STRICT"):
            if text.lower() not in _SWITCHES:
                raise DriftlineError(f"MOCK_STRICT={text} is not valid; write 1 or 0.")
            changed = replace(changed, strict=_SWITCHES[text.lower()])
        if text := variables.get("MOCK_ALIGNMENT"):
            if not text.isascii() or not text.isdigit():
                raise DriftlineError(f"MOCK_ALIGNMENT={text} is not valid; write a whole number, such as 32 (1: none).")
            changed = changed.with_alignment(int(text))
        if text := variables.get("MOCK_MAX_MEMORY"):
            try:
                changed = changed.with_max_memory(byte_count(int(text) if text.isdigit() else text))
            except ValueError as error:
                raise DriftlineError(f"MOCK_MAX_MEMORY={text} is not valid: {error}.") from error
        return changed
