"""The portfolio: five steps, from the cheapest to the most expensive. Witnesses are confirmed by running them again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from driftline.inputs.symbolic.answers import UNKNOWN, Clock, SolverAnswer, SolverOutcome, witness
from driftline.inputs.symbolic.exact import solve_exactly
from driftline.inputs.symbolic.goals import GoalKind, Query
from driftline.inputs.symbolic.hopping import basin_hopping
from driftline.inputs.symbolic.proofs import proves_impossible
from driftline.inputs.symbolic.prune import branch_and_prune
from driftline.inputs.symbolic.specials import special_rows

Step = Callable[[Query, np.random.Generator, Clock], SolverAnswer]


def intervals(query: Query, rng: np.random.Generator, left: Clock) -> SolverAnswer:
    return SolverAnswer(SolverOutcome.PROOF, "intervals") if proves_impossible(query) else UNKNOWN


def specials(query: Query, rng: np.random.Generator, left: Clock) -> SolverAnswer:
    """Try special numbers twice, with different random mixtures."""
    for _ in range(2):
        if answer := witness(query, "specials", special_rows(query, rng)):
            return answer
    return UNKNOWN


def bitwuzla(query: Query, rng: np.random.Generator, left: Clock) -> SolverAnswer:
    return solve_exactly(query, left)


STEPS: dict[str, Step] = {
    "intervals": intervals,
    "specials": specials,
    "branch-and-prune": branch_and_prune,
    "basin-hopping": basin_hopping,
    "bitwuzla": bitwuzla,
}
# The share of the remaining time for each step; a search that cannot prove anything gets the larger one.
_SHARES = {"intervals": 1.0, "specials": 1.0, "branch-and-prune": 0.08, "basin-hopping": 0.12, "bitwuzla": 0.8}
_AGAIN = ("branch-and-prune", "basin-hopping")  # with all the time that is left, when everything else gave up


def solve(
    query: Query,
    budget: float = 13.0,
    *,
    seed: int = 0,
    steps: Sequence[str] = tuple(STEPS),
    now: Callable[[], float] = time.monotonic,
) -> SolverAnswer:
    """Return the answer of the first step that finds one, within `budget` seconds of the clock `now`."""
    began = now()
    if not query.variables:
        return _without_variables(query)
    rng = np.random.default_rng(seed)

    def timed(name: str, share: float) -> SolverAnswer:
        until = now() + max(0.0, began + budget - now()) * share
        return STEPS[name](query, rng, lambda: until - now())

    plan = [(name, _SHARES[name] if len(steps) > 1 else 1.0) for name in steps]
    if len(steps) > 1:
        plan += [
            (name, 0.5) for name in (reversed(_AGAIN) if query.goal.kind is GoalKind.ERROR else _AGAIN) if name in steps
        ]
    for name, share in plan:
        answer = timed(name, share)
        if answer.outcome is not SolverOutcome.UNKNOWN:
            return replace(answer, seconds=now() - began)
    return replace(UNKNOWN, seconds=now() - began)


def _without_variables(query: Query) -> SolverAnswer:
    """Answer a query about constants by evaluating it once."""
    hit = bool(query.hits({})[0])
    return SolverAnswer(SolverOutcome.WITNESS if hit else SolverOutcome.PROOF, "intervals")
