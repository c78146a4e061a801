"""What a check compares of a program beside the outputs of its first call."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MOST_CALLS = 3


class Aspect(StrEnum):
    """What was compared with the reference for one target."""

    OUTPUTS = "outputs"
    GRADIENT = "gradient"
    OTHER_VALUES = "other values"  # a later call with other values
    FIRST_VALUES = "first values again"  # a later call with the values of the first
    OTHER_SIZE = "other size"  # a later call with inputs of another size
    GRADIENT_OF_OTHER_VALUES = "gradient of other values"


@dataclass(frozen=True)
class Extent:
    """What a check of a passing target goes on to compare. `calls`: 1, nothing but the first call; 2, later calls with
    other values and with the first ones again; 3, a later call with another size, too. `gradient`: the gradient, on
    targets that compute gradients, although the case does not ask for it."""

    calls: int = 1
    gradient: bool = False


FIRST_CALL = Extent()
USUAL = Extent(calls=MOST_CALLS, gradient=True)
