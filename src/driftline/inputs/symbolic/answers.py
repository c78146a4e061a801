"""The possible answers of a search for inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from driftline.core.tensors import Array
from driftline.inputs.symbolic.goals import Query


class SolverOutcome(StrEnum):
    WITNESS = "witness"  # these numbers reach the goal
    PROOF = "proof"  # nothing in the ranges can
    UNKNOWN = "unknown"  # neither was found within the budget


@dataclass(frozen=True)
class SolverAnswer:
    """The outcome of a query, the step that found it, and for a witness its numbers."""

    outcome: SolverOutcome
    step: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


UNKNOWN = SolverAnswer(SolverOutcome.UNKNOWN)
Clock = Callable[[], float]  # seconds that are left


def witness(query: Query, step: str, ordinals: Array) -> SolverAnswer | None:
    """Return the first row of `ordinals` that reaches the goal, confirmed by running it alone; None if there is
    none."""
    hits = query.hits(query.numbers(ordinals))
    for row in np.flatnonzero(hits)[:4]:
        numbers = {name: float(value[0]) for name, value in query.numbers(ordinals[row : row + 1]).items()}
        if confirms(query, numbers):
            return SolverAnswer(SolverOutcome.WITNESS, step, numbers)
    return None


def confirms(query: Query, numbers: Mapping[str, float]) -> bool:
    """True if these numbers, run alone, reach the goal and lie in the ranges."""
    given = {node.name: np.asarray([numbers[node.name]], node.format.carrier) for node in query.variables}
    for node in query.variables:
        least, most = query.ranges.get(node.name, (-node.format.largest, node.format.largest))
        rounded = node.format.round(np.array([least, most], np.float64))
        if not rounded[0] <= given[node.name][0] <= rounded[1]:
            return False
    return bool(query.hits(given)[0])
