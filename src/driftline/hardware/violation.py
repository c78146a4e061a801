"""A violation of a constraint, and the exceptions that report violations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from driftline.hardware.facts import SourceLine

SHOWN = 12  # groups in the text of an error; the report has all


@dataclass(frozen=True)
class Violation:
    """One node that breaks one constraint."""

    constraint: str  # its name in profiles, as in "shape"
    graph: str
    node: str
    operator: str
    value: str  # found: "float32[24, 768]: size 24 in dimension 0"
    wanted: str  # the rule: "multiples of 32"
    fits: str  # what would fit: "padded to [32, 768]"
    source: SourceLine | None = None

    def __str__(self) -> str:
        fits = f"; {self.fits} would fit" if self.fits else ""
        return f"{self.operator} ({self.node} in {self.graph}): {self.value}; allowed: {self.wanted}{fits}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Group:
    """Violations of one constraint by one operator on one source line, which are fixed together."""

    first: Violation
    count: int

    def __str__(self) -> str:
        where = str(self.first.source) if self.first.source else "(no source line)"
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"[{self.first.constraint}] {where}\n    {self.first}{times}"


def grouped(violations: Sequence[Violation]) -> list[Group]:
    """Return one group per constraint, operator and source line, in the order of their first violation."""
    groups: dict[object, list[Violation]] = {}
    for one in violations:
        where = (one.source.file, one.source.line) if one.source else one.node
        groups.setdefault((one.constraint, one.operator, where), []).append(one)
    return [Group(members[0], len(members)) for members in groups.values()]


class ConstraintViolation(Exception):
    """Raised when a program breaks a constraint of a strict profile.

    Its class is called after the constraint (`ShapeViolation`), and its first line names constraint, operator and rule
    without places: so a smaller program that breaks the same rule is known to fail in the same way.
    """

    def __init__(self, profile: str, violations: Sequence[Violation], note: str = "") -> None:
        self.profile = profile
        self.violations = tuple(violations)
        first = violations[0]
        groups = grouped(violations)
        lines = [
            f"{profile}: {first.operator} breaks {first.constraint}: {first.value}; allowed: {first.wanted}"
            f" [violations: {len(violations)}]",
            *(str(group) for group in groups[:SHOWN]),
        ]
        if len(groups) > SHOWN:
            lines.append(f"... and {len(groups) - SHOWN} more places")
        super().__init__("\n".join([*lines, *([note] if note else [])]))

    def with_note(self, note: str) -> ConstraintViolation:
        return type(self)(self.profile, self.violations, note)


class ConstraintWarning(UserWarning):
    """Warns that a program breaks a constraint of a profile that is not strict; the program continues."""


@cache
def _error_class(constraint: str) -> type[ConstraintViolation]:
    name = "".join(part.capitalize() for part in constraint.replace("-", "_").split("_")) + "Violation"
    return type(name, (ConstraintViolation,), {"__doc__": ConstraintViolation.__doc__})


def violation_error(profile: str, violations: Sequence[Violation]) -> ConstraintViolation:
    """Return the error for these violations, of the class named after the first one's constraint."""
    return _error_class(violations[0].constraint)(profile, violations)
