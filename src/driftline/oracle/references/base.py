"""What a reference offers. The float64 run may fail; the verdict then says so and is more lenient."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from driftline.core.execution import Failure
from driftline.core.tensors import Arrays


class NoExactReference(Exception):
    """The float64 run is not possible for this program; the message says why."""


class ReferenceRun(Protocol):
    def native(self, arrays: Arrays) -> Arrays:
        """The program in its own dtypes, without optimisation. What it raises is part of its meaning."""


@runtime_checkable
class RefusingRun(ReferenceRun, Protocol):
    """The framework itself may raise on a program whose meaning is known nevertheless."""

    refusal: Failure | None


class ExactRun(ReferenceRun, Protocol):
    """A framework without a shadow runs the program itself in float64."""

    def exact(self, arrays: Arrays) -> Arrays:
        """The same program with every float computed in float64. `arrays` are float64 already."""


@runtime_checkable
class StoredRun(ExactRun, Protocol):
    """It can also keep values in fewer bits on the way."""

    def stored(self, arrays: Arrays, storage: str, seed: int) -> Arrays:
        """The float64 run with values kept as `oracle/storage.py` says, each time a little differently."""
