"""What is known about a program's inputs besides their types: allowed values, and relations between dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class InputRule:
    """The values that one input may hold, in the syntax of `InputPlan.values`, and the reason."""

    values: str
    why: str


@dataclass(frozen=True)
class Known:
    """Facts about a program's inputs, found by inspection in a worker; plain data."""

    rules: Mapping[str, str] = field(default_factory=dict)  # by input, as in `InputPlan.values`, dimensions by name
    why: Mapping[str, str] = field(default_factory=dict)  # by input: the reason for its rule
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by input: a name for each axis, or ""
    limits: Mapping[str, int] = field(default_factory=dict)  # by dimension: its largest size
    size: int = 0  # operators or layers: how large the program is, roughly
    layout: Mapping[str, Any] = field(default_factory=dict)  # how inputs lie in memory, where they share it
    resizable: bool = False  # any input may have another shape than the example's

    def ruled(self, rules: Mapping[str, InputRule]) -> Known:
        """Return the facts with these rules."""
        values = {name: rule.values for name, rule in rules.items()}
        return replace(self, rules=values, why={name: rule.why for name, rule in rules.items()})


NOTHING_KNOWN = Known()
