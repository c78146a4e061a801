"""Step 3: basin hopping over ordinals, with many walkers in parallel.

In each round a walker changes some variables by a step of any size, copies or negates one variable into another up to a
few ULP, or takes a variable from another walker. It keeps moves that do not increase the distance to the goal, and
occasionally one that does.
"""

from __future__ import annotations

import numpy as np

from driftline.core.tensors import Array
from driftline.inputs.symbolic.answers import UNKNOWN, Clock, SolverAnswer, witness
from driftline.inputs.symbolic.distance import distances
from driftline.inputs.symbolic.goals import Query
from driftline.inputs.symbolic.specials import special_rows

STEP = "basin-hopping"
WALKERS = 192
PATIENCE = 150  # rounds after which the worse half starts again


def basin_hopping(query: Query, rng: np.random.Generator, left: Clock) -> SolverAnswer:
    """Search for a witness until the time is over."""
    low, high = query.bounds
    here = rng.integers(low, high, (WALKERS, len(low)), endpoint=True)
    here[: WALKERS // 2] = special_rows(query, rng, WALKERS // 2)
    far = distances(query, here)
    rounds = 0
    tried = here
    while True:
        if (far < 0).any() and (answer := witness(query, STEP, tried)):
            return answer
        if left() <= 0:
            return UNKNOWN
        rounds += 1
        tried = _moved(here, low, high, rng)
        reached = distances(query, tried)
        better = (reached <= far) | (rng.random(WALKERS) < 0.01)
        here[better] = tried[better]
        far = np.where(better, reached, far)
        far = np.where(reached < 0, reached, np.where(far < 0, 40.0, far))
        if rounds % PATIENCE == 0:
            worse = np.argsort(far)[WALKERS // 2 :]
            here[worse] = rng.integers(low, high, (len(worse), len(low)), endpoint=True)
            far[worse] = np.inf


def _moved(here: Array, low: Array, high: Array, rng: np.random.Generator) -> Array:
    walkers, count = here.shape
    made = here.copy()
    move = rng.integers(0, 5, walkers)
    width = np.maximum(high.astype(np.float64) - low.astype(np.float64), 2.0)
    size = np.exp(rng.uniform(0, 1, made.shape) * np.log(np.minimum(width / 2, 2.0**61)))
    step = (size * rng.choice([-1, 1], made.shape)).astype(np.int64)
    chosen = (rng.random(made.shape) < 1.5 / count) & (move < 3)[:, None]
    # Stay within 64 bits: float64 has ordinals up to 2**63.
    wanted = made.astype(np.float64) + step
    made = np.where(chosen & (np.abs(wanted) < 2.0**62.99), made + step, made)
    rows, one, other = np.arange(walkers), rng.integers(0, count, walkers), rng.integers(0, count, walkers)
    copied = move == 3
    sign = np.where(rng.random(walkers) < 0.5, -1, 1)
    near = made[rows, other] * sign + rng.integers(-3, 4, walkers)
    made[rows[copied], one[copied]] = near[copied]
    taken = move == 4
    donor = rng.integers(0, walkers, walkers)
    made[rows[taken], one[taken]] = here[donor[taken], one[taken]]
    return np.clip(made, low, high)
