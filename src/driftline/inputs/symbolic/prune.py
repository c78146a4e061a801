"""Step 2: branch and prune. Boxes of ordinals are halved; those in which the goal is impossible are dropped.

When no box is left, that is a proof.
"""

from __future__ import annotations

import numpy as np

from driftline.core.tensors import Array
from driftline.inputs.symbolic.answers import UNKNOWN, Clock, SolverAnswer, SolverOutcome, witness
from driftline.inputs.symbolic.goals import GoalKind, Query
from driftline.inputs.symbolic.intervals import enclose
from driftline.inputs.symbolic.proofs import possible

STEP = "branch-and-prune"
TOGETHER = 256  # boxes that are looked at in one go
MOST = 200_000  # boxes that wait


def branch_and_prune(query: Query, rng: np.random.Generator, left: Clock) -> SolverAnswer:
    """Depth first: what was halved last is looked at first."""
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
    """Each box in two along its widest side; single points are done with."""
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
