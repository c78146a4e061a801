"""Measure whether a program is slower on one side than on another: in turn, in fresh processes, and then once more.

For a finding, the whole interval must lie beyond the limit twice, the second time in new processes that are started and
timed in the other order. Nothing is concluded within the noise floor of the machine, or from a difference that the cost
of calling compiled code explains.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from driftline.checking.checker import Checker
from driftline.checking.timed import contestant_of, why_unusable
from driftline.core.announce import Announce
from driftline.core.case import Case
from driftline.core.errors import DriftlineError
from driftline.core.execution import Execution, Outcome
from driftline.core.target import Target
from driftline.core.text import first_line
from driftline.measure.contestant import Contestant, Untimed
from driftline.measure.estimate import Estimate, beyond, noise_floor
from driftline.measure.rounds import RoundLimits, Rounds, by_clock, interleave

LIMIT = 1.5  # how many times slower is a finding
LEAST_SECONDS = 100e-6  # least difference in one call: less may be the cost of calling compiled code
SCREENING_ROUNDS = 8

SLOW, UNCONFIRMED, SLOWER, NOISE, FASTER = "slow", "unconfirmed", "slower", "within noise", "faster"
TOO_SHORT, TOO_NOISY, UNMEASURED, OTHER_WORK = "too short", "too noisy", "not measured", "other work"


@dataclass(frozen=True, eq=False)
class Side:
    """A program on a target, with its name in sentences."""

    case: Case
    target: Target
    words: str

    @property
    def key(self) -> tuple[str, str]:
        return self.case.program.digest, str(self.target)


@dataclass(frozen=True)
class RatioMeasured:
    """One measurement of two sides. The ratio says how many times longer the first one takes."""

    ratio: Estimate  # by the clock that decides: CPU time, on a GPU wall time
    wall: Estimate
    own_seconds: float  # of one call, by the clock that decides
    other_seconds: float
    rounds: int
    version: str = ""
    other_version: str = ""
    instructions: Estimate | None = None  # ratio of instructions, if the kernel counts them; for information only


@dataclass(frozen=True)
class Unmeasured:
    """The reason why there is no ratio."""

    outcome: str
    reason: str
    of_baseline: bool = False


@dataclass(frozen=True)
class Effort:
    """The limits of a measurement."""

    rounds: int = 20
    seconds: float = 30.0  # after so many no further round is begun
    timeout: float = 900.0

    @property
    def limits(self) -> RoundLimits:
        return RoundLimits(self.rounds, self.seconds)


class Stopwatch:
    """Measures pairs of sides, and remembers the noise floor of each side."""

    def __init__(self, checker: Checker, effort: Effort, tell: Announce = lambda words: None) -> None:
        self.checker = checker
        self.effort = effort
        self.tell = tell
        self._floors: dict[tuple[str, str, float], float | Unmeasured] = {}

    def floor(self, side: Side, limit: float = LIMIT) -> float | Unmeasured:
        """Return the factor up to which a ratio against this side means nothing, by timing the side against itself in
        two processes. Few rounds are enough if the factor is far below the limit.
        """
        key = (*side.key, limit)
        if key not in self._floors:
            self.tell(f"{side.words} against itself")
            found = self.measure(side, side, settled=lambda ratio: noise_floor(ratio) < 1 + (limit - 1) / 4)
            self._floors[key] = found if isinstance(found, Unmeasured) else noise_floor(found.ratio)
        return self._floors[key]

    def measure(
        self,
        own: Side,
        other: Side,
        *,
        other_first: bool = False,
        limits: RoundLimits | None = None,
        settled: Callable[[Estimate], bool] = lambda ratio: False,
    ) -> RatioMeasured | Unmeasured:
        """Time a side against another in two new processes.

        `other_first`: start and time them in the other order. `limits`: rounds, by default those of the effort.
        `settled`: ends the measurement once it holds for the ratio so far, after the fewest rounds; it must never hold
        for a finding, since an interval that is tested again and again exceeds any limit by chance sooner or later.
        """
        by_cpu = own.target.device == other.target.device == "cpu"  # a GPU works while the processor waits
        clock = "cpu" if by_cpu else "wall"

        def enough(taken: Rounds) -> bool:
            ratio = taken.ratio(clock)
            return settled(ratio.inverse() if other_first else ratio)

        pair = (other, own) if other_first else (own, other)
        try:
            with contextlib.ExitStack() as held:
                made: list[Contestant] = []
                for side in pair:
                    found = self._enter(held, side)
                    if isinstance(found, Unmeasured):
                        return Unmeasured(found.outcome, found.reason, side is other and own is not other)
                    made.append(found)
                taken = interleave(
                    made[0],
                    made[1],
                    limits or self.effort.limits,
                    tell=lambda done, of: self.tell(f"{own.words}, round {done + 1} of {of}"),
                    settled=enough,
                )
        except (Untimed, DriftlineError) as error:
            return Unmeasured(str(Outcome.ERROR), first_line(str(error)))
        if other_first:
            made.reverse()
            taken = Rounds(taken.second, taken.first)
        return _measured(taken, clock, made[0].kept.version, made[1].kept.version)

    def _enter(self, held: contextlib.ExitStack, side: Side) -> Contestant | Unmeasured:
        form = self.checker.form_for(side.case, side.target)
        if isinstance(form, Execution):
            return Unmeasured(str(form.outcome), first_line(str(form.failure or form.problem)))
        made = held.enter_context(
            contestant_of(self.checker, side.case, side.target, form, self.effort.timeout, cold=False)
        )
        return made if made.usable else Unmeasured(str(made.kept.outcome), why_unusable(made))


def _measured(taken: Rounds, clock: str, version: str, other_version: str) -> RatioMeasured:
    own, other = (median(by_clock(timings, clock)) for timings in (taken.first, taken.second))
    ratio, wall, rounds = taken.ratio(clock), taken.ratio("wall"), len(taken.first)
    return RatioMeasured(ratio, wall, own, other, rounds, version, other_version, taken.instructions())


def is_beyond(found: RatioMeasured, limit: float, floor: float) -> bool:
    """True if the whole interval lies beyond the limit and the noise, and the difference is more than a call costs.
    Wall time must not contradict, since spinning threads use CPU time without anyone waiting longer.
    """
    apart = found.own_seconds - found.other_seconds
    return found.ratio.low > max(limit, floor) and apart > LEAST_SECONDS and found.wall.high > limit


def plainly_below(ratio: Estimate, limit: float) -> bool:
    """True if the whole interval lies below half the way to the limit; more rounds would not make that a finding."""
    return ratio.high < 1 + (limit - 1) / 2


def is_too_short(found: RatioMeasured, limit: float) -> bool:
    """True if the ratio is beyond the limit, but by no more time than a call may cost."""
    return found.ratio.low > limit and found.own_seconds - found.other_seconds <= LEAST_SECONDS


def conclude(measured: tuple[RatioMeasured, ...], limit: float, floor: float) -> str:
    """Return the conclusion from one or two measurements."""
    first, *more = measured
    if floor >= limit:
        return TOO_NOISY
    if is_beyond(first, limit, floor):
        return SLOW if more and all(is_beyond(one, limit, floor) for one in more) else UNCONFIRMED
    if is_too_short(first, max(limit, floor)):
        return TOO_SHORT
    return {1: SLOWER, -1: FASTER, 0: NOISE}[beyond(first.ratio, floor)]
