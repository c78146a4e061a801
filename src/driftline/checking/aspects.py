"""The aspects of a program that a check compares, besides the outputs of its first call."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MOST_CALLS = 3


class Aspect(StrEnum):
    """One aspect that was compared with the reference for a target."""

    OUTPUTS = "outputs"
    GRADIENT = "gradient"
    OTHER_VALUES = "other values"  # a later call with other values
    FIRST_VALUES = "first values again"  # a later call with the values of the first
    OTHER_SIZE = "other size"  # a later call with inputs of another size
    GRADIENT_OF_OTHER_VALUES = "gradient of other values"


@dataclass(frozen=True)
class Extent:
    """The further comparisons for a target that passes. `calls`: 1 is the first call only; 2 adds later calls with
    other values and with the first ones again; 3 adds a call with inputs of another size. `gradient`: also compare
    gradients that the case does not ask for, on targets that compute them."""

    calls: int = 1
    gradient: bool = False


FIRST_CALL = Extent()
USUAL = Extent(calls=MOST_CALLS, gradient=True)
