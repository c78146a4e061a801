"""Runs of a shadow that show what the specification leaves open, and what the open elements may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from driftline.core.tensors import Arrays

T = TypeVar("T")


@dataclass(frozen=True)
class Reading:
    """One way to read a clause that leaves a few results open: the number of the reading, modulo those that there are.
    Where `shift` is not 0, each further operation with open elements is read in another way than the one before."""

    number: int
    shift: int = 0

    def at(self, turn: int) -> Reading:
        """The reading of the operation in that place among those with open elements."""
        return Reading(self.number + self.shift * turn)

    def of(self, known: Sequence[T]) -> T:
        return known[self.number % len(known)]


READINGS = (
    *(Reading(number) for number in range(8)),
    *(Reading(number, shift) for shift in (1, 2) for number in range(4)),
)


@dataclass(frozen=True)
class OpenRuns:
    """Runs in which open elements are something else. An output that changes in a run of `free` may be anything; one
    that changes in a run of `bound` alone is as in one of `readings`."""

    free: list[Arrays] = field(default_factory=list)
    bound: list[Arrays] = field(default_factory=list)
    readings: list[Arrays] = field(default_factory=list)
    clauses: frozenset[str] = frozenset()
