"""Runs of a shadow that show which results the specification leaves open, and which values open elements may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from driftline.core.tensors import Arrays

T = TypeVar("T")


@dataclass(frozen=True)
class Reading:
    """One way to read a clause that allows a few results: a number, taken modulo the number of readings.

    With `shift`, each further operation with open elements is read differently from the one before.
    """

    number: int
    shift: int = 0

    def at(self, turn: int) -> Reading:
        """Return the reading of operation number `turn` among those with open elements."""
        return Reading(self.number + self.shift * turn)

    def of(self, known: Sequence[T]) -> T:
        """Return the item of `known` that this reading selects."""
        return known[self.number % len(known)]


READINGS = (
    *(Reading(number) for number in range(8)),
    *(Reading(number, shift) for shift in (1, 2) for number in range(4)),
)


@dataclass(frozen=True)
class OpenRuns:
    """The outputs of runs in which open elements have other values. An element that changes in a run of `free` may have
    any value; one that changes in `bound` only must match one of `readings`."""

    free: list[Arrays] = field(default_factory=list)
    bound: list[Arrays] = field(default_factory=list)
    readings: list[Arrays] = field(default_factory=list)
    clauses: frozenset[str] = frozenset()
