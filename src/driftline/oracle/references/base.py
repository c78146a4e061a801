"""The protocols of a reference. A program may have no float64 run; the verdict then says so and is more lenient."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from driftline.core.execution import Failure
from driftline.core.tensors import Arrays


class NoExactReference(Exception):
    """Raised when a program has no float64 run; the message says why."""


class ReferenceRun(Protocol):
    """The unoptimised run of a program by its own framework."""

    def native(self, arrays: Arrays) -> Arrays:
        """Run the program in its own dtypes, without optimisation. An exception that it raises is part of the
        reference."""


@runtime_checkable
class RefusingRun(ReferenceRun, Protocol):
    """A reference run whose framework may itself raise an error although the correct result is known."""

    refusal: Failure | None


class ExactRun(ReferenceRun, Protocol):
    """A reference run that can also run the program in float64, for frameworks without a shadow."""

    def exact(self, arrays: Arrays) -> Arrays:
        """Run the program with every float computed in float64. `arrays` are float64 already."""


@runtime_checkable
class SteppedRun(ExactRun, Protocol):
    """A reference run that can also let steps and choices fall to either side."""

    def stepped(self, arrays: Arrays) -> list[Arrays]:
        """Run in float64 a few times, with the arguments of steps pushed as far as rounding may move them."""


@runtime_checkable
class StoredRun(ExactRun, Protocol):
    """A reference run that can also keep intermediate values in fewer bits."""

    def stored(self, arrays: Arrays, storage: str, seed: int) -> Arrays:
        """Run in float64 with values kept in the `storage` format (see `oracle/storage.py`); `seed` varies the
        rounding."""
