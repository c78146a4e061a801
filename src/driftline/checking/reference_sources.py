"""The sources of a program's expected results: its own framework, or one of two for ONNX models.

The reference evaluator of ONNX is the standard's own, but slow, and cannot run everything. Driftline's player on torch
is fast and covers the operators that exporters write. Small models use the evaluator, big ones the player, and each is
replaced by the other where it fails. The two are independent, except for rare operators that the player leaves to the
evaluator; if they disagree, no compiler is blamed (`Checker`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from driftline.core.case import Case
from driftline.oracle.judge import Reference

# Limits of models that the standard's evaluator, in numpy and Python loops, runs in a fraction of a second.
_WEIGHTS = 1 << 20  # bytes
_NODES = 300
_ELEMENTS = 1 << 16  # of all inputs


@dataclass(frozen=True)
class ReferenceSource:
    """One source of expected results. `name`: its key in `oracle.reference.REFERENCES`; `home`: the framework whose
    worker runs it; `words`: its name in messages."""

    name: str
    home: str
    words: str


EVALUATOR = ReferenceSource("onnx", "onnx", "the reference evaluator of the ONNX project")
PLAYER = ReferenceSource("onnx-player", "torch", "Driftline's player of ONNX models on torch")
PLAYER_ALONE = ReferenceSource("onnx-player-alone", "torch", "Driftline's player of ONNX models, without the evaluator")
_FRAMEWORKS = {
    "torch": ReferenceSource("torch", "torch", "torch, eager, without oneDNN"),
    "jax": ReferenceSource("jax", "jax", "JAX, operation by operation"),
    "tensorflow": ReferenceSource("tensorflow", "tensorflow", "TensorFlow, eager"),
}


def reference_sources(case: Case) -> tuple[ReferenceSource, ...]:
    """Return the sources for the program of a case, the preferred one first."""
    program = case.program
    if program.framework != "onnx":
        return (_FRAMEWORKS[program.framework],)
    return (PLAYER, EVALUATOR) if is_big(case) else (EVALUATOR, PLAYER)


def is_big(case: Case) -> bool:
    """True if the case is too big for the standard's evaluator."""
    elements = sum(array.size for sample in case.samples for array in sample.arrays.values())
    return case.program.weights > _WEIGHTS or len(case.program.operators) > _NODES or elements > _ELEMENTS


def quality(reference: Reference) -> float:
    """Return how complete a reference is, as a number: it has results for each sample, and float64 results too."""
    if reference.problem or not reference.samples:
        return -math.inf
    raised = sum(sample.failure is not None for sample in reference.samples)
    return -raised - sum(sample.exact is None for sample in reference.samples) / (len(reference.samples) + 1)
