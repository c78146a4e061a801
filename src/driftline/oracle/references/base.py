"""What a reference offers. `exact` may be missing for a program; the verdict then says so and is more lenient."""

from __future__ import annotations

from typing import Protocol

from driftline.core.tensors import Arrays


class NoExactReference(Exception):
    """The float64 run is not possible for this program; the message says why."""


class ReferenceRun(Protocol):
    def native(self, arrays: Arrays) -> Arrays:
        """The program in its own dtypes, without optimisation. What it raises is part of its meaning."""

    def exact(self, arrays: Arrays) -> Arrays:
        """The same program with every float computed in float64. `arrays` are float64 already."""

    # optional, found by attribute: noisy(arrays, seed), the exact run with a rounding error in every operation; without
    # it, rounding is only tried on the inputs
