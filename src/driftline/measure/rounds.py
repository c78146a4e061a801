"""Two contestants in turn, round by round, until there are enough rounds or the time is over.

Each round runs both, the first one first in every other round, and each as many times as fill a moment: a single call
of a microsecond is shorter than what the clock can tell.
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
    """Seconds of one call, averaged over the calls of a round; and its instructions, where they are counted."""

    wall: float
    cpu: float
    instructions: float = 0.0


class Timed(Protocol):
    """What can be timed."""

    def time(self, calls: int) -> Timing: ...


@dataclass(frozen=True)
class Rounds:
    """Timings of two contestants; those of one round have the same place."""

    first: tuple[Timing, ...]
    second: tuple[Timing, ...]

    def ratio(self, clock: str) -> Estimate:
        """How many times longer the first takes than the second, by the clock `cpu` or `wall`."""
        return ratio_of(by_clock(self.first, clock), by_clock(self.second, clock))

    def instructions(self) -> Estimate | None:
        """How many times more instructions the first executes; nothing where they were not counted."""
        first, second = ([timing.instructions for timing in side] for side in (self.first, self.second))
        return ratio_of(first, second) if min(*first, *second) > 0 else None


def by_clock(timings: Sequence[Timing], clock: str) -> list[float]:
    """Seconds by one clock: `cpu` or `wall`. A time too short for it counts as one tick."""
    return [max(timing.cpu if clock == "cpu" else timing.wall, 1e-9) for timing in timings]


@dataclass(frozen=True)
class RoundLimits:
    """How many rounds there are: `most`, or fewer if the time is over, but the `fewest` in any case."""

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
    """Time two contestants in turn. No round is begun beyond the limits, nor once the rounds so far have `settled` the
    question, but there are the fewest at least. `tell` is told how many rounds are done, of how many."""
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
    """How many calls fill a round, of those that take as long as this one."""
    return max(1, min(MOST_CALLS, round(ROUND_SECONDS / max(one.wall, 1e-6))))
