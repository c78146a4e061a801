"""Time two contestants in turn, round by round, until there are enough rounds or the time is over.

Each round runs both, in an order that alternates from round to round, and each often enough to fill `ROUND_SECONDS`,
since a single call of a microsecond is too short for the clock.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from driftline.measure.estimate import Estimate, ratio_of

ROUND_SECONDS = 0.05  # for each contestant
MOST_CALLS = 1000
FEWEST_ROUNDS = 8  # with fewer, no interval of 99 % can be had


@dataclass(frozen=True)
class Timing:
    """The seconds of one call, averaged over the calls of a round, and its instructions if they are counted."""

    wall: float
    cpu: float
    instructions: float = 0.0


class Timed(Protocol):
    """A program that can be timed."""

    def time(self, calls: int) -> Timing: ...


@dataclass(frozen=True)
class Rounds:
    """The timings of two contestants; equal indices belong to the same round."""

    first: tuple[Timing, ...]
    second: tuple[Timing, ...]

    def ratio(self, clock: str) -> Estimate:
        """Estimate how many times longer the first takes than the second. `clock`: `cpu` or `wall`."""
        return ratio_of(by_clock(self.first, clock), by_clock(self.second, clock))

    def instructions(self) -> Estimate | None:
        """Estimate how many times more instructions the first executes; None if they were not counted."""
        first, second = ([timing.instructions for timing in side] for side in (self.first, self.second))
        return ratio_of(first, second) if min(*first, *second) > 0 else None


def by_clock(timings: Sequence[Timing], clock: str) -> list[float]:
    """Return the seconds of each timing by one clock, `cpu` or `wall`. Unmeasurably short times count as one tick."""
    return [max(timing.cpu if clock == "cpu" else timing.wall, 1e-9) for timing in timings]


@dataclass(frozen=True)
class RoundLimits:
    """The number of rounds: `most`, or fewer if the time is over, but at least `fewest`."""

    most: int
    seconds: float = math.inf  # after so many no further round is begun
    fewest: int = FEWEST_ROUNDS


def interleave(
    first: Timed,
    second: Timed,
    limits: RoundLimits,
    *,
    tell: Callable[[int, int], None] = lambda done, of: None,
    settled: Callable[[Rounds], bool] = lambda taken: False,
) -> Rounds:
    """Time two contestants in turn. After the fewest rounds, stop at the limits or once `settled` holds for the rounds
    so far. `tell` is called with the number of rounds done and the maximum.
    """
    pair = (first, second)
    calls = [calls_in_a_round(contestant.time(1)) for contestant in pair]
    taken: tuple[list[Timing], list[Timing]] = ([], [])
    deadline = time.monotonic() + limits.seconds
    for done in range(limits.most):
        over = done >= limits.fewest and time.monotonic() >= deadline
        if over or (done >= limits.fewest and settled(Rounds(tuple(taken[0]), tuple(taken[1])))):
            break
        tell(done, limits.most)
        for place in (0, 1) if done % 2 == 0 else (1, 0):
            taken[place].append(pair[place].time(calls[place]))
    return Rounds(tuple(taken[0]), tuple(taken[1]))


def calls_in_a_round(one: Timing) -> int:
    """Return how many calls of this duration fill a round."""
    return max(1, min(MOST_CALLS, round(ROUND_SECONDS / max(one.wall, 1e-6))))
