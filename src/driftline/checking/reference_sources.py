"""What says what a program means: its own framework, or one of two for ONNX models.

ONNX has a reference evaluator, which is the standard's own word; it is slow and cannot run everything. Driftline's
player on torch is fast and covers what exporters write. Small models are evaluated by the first, big ones by the
second, and where one of them cannot, by the other. They are independent of each other, but for rare operators that the
player leaves to the evaluator; where they disagree, no compiler is blamed (`Checker`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from driftline.core.case import Case
from driftline.oracle.judge import Reference

# What the standard's evaluator, which is numpy and Python loops, plays in a fraction of a second.
_WEIGHTS = 1 << 20  # bytes
_NODES = 300
_ELEMENTS = 1 << 16  # of all inputs


@dataclass(frozen=True)
class ReferenceSource:
    """`name` is the key of `oracle.reference.REFERENCES`, `home` the framework whose worker it runs in."""

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
    """Those that can say what the program means, the preferred one first."""
    program = case.program
    if program.framework != "onnx":
        return (_FRAMEWORKS[program.framework],)
    return (PLAYER, EVALUATOR) if is_big(case) else (EVALUATOR, PLAYER)


def is_big(case: Case) -> bool:
    """Too big for the standard's evaluator?"""
    elements = sum(array.size for sample in case.samples for array in sample.arrays.values())
    return case.program.weights > _WEIGHTS or len(case.program.operators) > _NODES or elements > _ELEMENTS


def quality(reference: Reference) -> float:
    """How much of what is asked a reference answers: it has results, and the float64 ones too."""
    if reference.problem or not reference.samples:
        return -math.inf
    raised = sum(sample.failure is not None for sample in reference.samples)
    return -raised - sum(sample.exact is None for sample in reference.samples) / (len(reference.samples) + 1)
