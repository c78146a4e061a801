"""Step 2: branch and prune. Boxes of ordinals are split in two, and boxes in which the goal is impossible are dropped.

If no box is left, this proves that the goal cannot be reached.
"""

from __future__ import annotations

import numpy as np

from driftline.core.tensors import Array
from driftline.inputs.symbolic.answers import UNKNOWN, Clock, SolverAnswer, SolverOutcome, witness
from driftline.inputs.symbolic.goals import GoalKind, Query
from driftline.inputs.symbolic.intervals import enclose
from driftline.inputs.symbolic.proofs import possible

STEP = "branch-and-prune"
TOGETHER = 256  # boxes evaluated at once
MOST = 200_000  # boxes waiting at most


def branch_and_prune(query: Query, rng: np.random.Generator, left: Clock) -> SolverAnswer:
    """Search depth first: the boxes that were split last are evaluated first."""
    if query.goal.kind is GoalKind.ERROR:
        return UNKNOWN  # intervals say nothing of errors
    first, last = query.bounds
    low, high = first[None], last[None]
    while len(low):
        if left() <= 0 or len(low) > MOST:
            return UNKNOWN
        now = min(len(low), TOGETHER)
        a, b = low[-now:], high[-now:]
        low, high = low[:-now], high[:-now]
        found = enclose(query.order, query.numbers(a), query.numbers(b))
        room = np.broadcast_to(possible(query, found), (now,))
        a, b = a[room], b[room]
        if not len(a):
            continue
        tried = np.concatenate([_middle(a, b), a, b, rng.integers(a, b, endpoint=True)])
        if answer := witness(query, STEP, tried):
            return answer
        a, b = _halved(a, b)
        low, high = np.concatenate([low, a]), np.concatenate([high, b])
    return SolverAnswer(SolverOutcome.PROOF, STEP)


def _middle(a: Array, b: Array) -> Array:
    return (a >> 1) + (b >> 1) + (a & b & 1)


def _halved(a: Array, b: Array) -> tuple[Array, Array]:
    """Split each box in two along its widest side. Boxes of a single point are dropped."""
    width = np.ascontiguousarray(b - a).view(np.uint64)  # up to 2**64 in float64, and exact: 1 is not 0
    side = width.argmax(1)
    wide = width[np.arange(len(a)), side] > 0
    a, b, side = a[wide], b[wide], side[wide]
    rows = np.arange(len(a))
    middle = _middle(a[rows, side], b[rows, side])
    upper, lower = a.copy(), b.copy()
    lower[rows, side] = middle
    upper[rows, side] = middle + 1
    return np.concatenate([a, upper]), np.concatenate([lower, b])
