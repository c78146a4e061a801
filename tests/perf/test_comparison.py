"""What may be concluded from measured ratios: never within the noise, and a finding only twice in a row."""

from __future__ import annotations

import numpy as np
import pytest

from driftline.measure.estimate import Estimate, noise_floor, ratio_of
from driftline.perf.comparison import (
    FASTER,
    NOISE,
    SLOW,
    SLOWER,
    TOO_NOISY,
    TOO_SHORT,
    UNCONFIRMED,
    RatioMeasured,
    conclude,
)
from driftline.perf.question import still_grows, still_slow
from driftline.perf.result import GrowthRow, PerfRow
from driftline.perf.words import slow_sentence

LIMIT, FLOOR = 1.5, 1.05


def measured(ratio: float, *, width: float = 1.05, seconds: float = 0.01, wall: float = 0.0) -> RatioMeasured:
    around = Estimate(ratio, ratio / width, ratio * width)
    by_wall = Estimate(wall, wall / 1.3, wall * 1.3) if wall else around
    return RatioMeasured(around, by_wall, ratio * seconds, seconds, 20)


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ((2.0, 2.0), SLOW),
        ((2.0,), UNCONFIRMED),
        ((2.0, 1.4), UNCONFIRMED),
        ((1.3,), SLOWER),
        ((1.55,), SLOWER),  # its interval reaches below the limit
        ((1.03,), NOISE),
        ((0.5,), FASTER),
    ],
)
def test_a_finding_lies_beyond_the_limit_twice(ratios: tuple[float, ...], said: str) -> None:
    assert conclude(tuple(map(measured, ratios)), LIMIT, FLOOR) == said


def test_nothing_is_concluded_on_a_machine_noisier_than_the_limit() -> None:
    assert conclude((measured(3.0), measured(3.0)), LIMIT, 1.6) == TOO_NOISY


def test_what_a_call_costs_is_no_finding() -> None:
    assert conclude((measured(4.0, seconds=5e-6),), LIMIT, FLOOR) == TOO_SHORT


def test_the_wall_clock_must_not_contradict() -> None:
    """Twice the CPU time in the same wall time: threads that spin."""
    assert conclude((measured(2.0, wall=1.0),), LIMIT, FLOOR) == SLOWER


def test_a_program_against_itself_is_never_found() -> None:
    """Times of a busy machine, with the rules of the command, over synthetic pairs; real ones are 2x apart."""

    def drawn(seed: int, factor: float = 1.0) -> list[float]:
        rng = np.random.default_rng(seed)
        return [float(value) for value in factor * 0.01 * np.exp(np.abs(rng.normal(0.0, 0.1, 20)))]

    def pair(seed: int, factor: float) -> RatioMeasured:
        own, other = drawn(seed, factor), drawn(seed + 10_000)
        ratio = ratio_of(own, other)
        return RatioMeasured(ratio, ratio, float(np.median(own)), float(np.median(other)), 20)

    def said(seed: int, factor: float) -> str:
        floor = noise_floor(pair(seed + 5_000, 1.0).ratio)
        return conclude((pair(seed, factor), pair(seed + 1_000, factor)), LIMIT, floor)

    assert not [seed for seed in range(30) if said(seed, 1.0) in (SLOW, UNCONFIRMED)]
    assert sum(said(seed, 2.0) == SLOW for seed in range(20)) >= 19


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (measured(2.0), None),  # unconfirmed
        (measured(1.1), False),
        (measured(0.5), False),
        (measured(1.55), None),  # its interval holds the limit
        (measured(1.2, width=1.4), None),  # within the noise, and maybe beyond the limit
        (measured(4.0, seconds=5e-6), None),  # too short
        (measured(2.0, wall=1.0), False),  # nobody waits longer
    ],
)
def test_a_replay_calls_fixed_only_what_is_surely_below_the_limit(found: RatioMeasured, said: bool | None) -> None:
    row = PerfRow("inductor", "eager", conclude((found,), LIMIT, FLOOR), (found,))
    assert still_slow(row, LIMIT) is said


def test_a_replay_of_growth_calls_fixed_only_what_surely_grows_slower() -> None:
    def row(low: float, high: float, seconds: float = 9.0, found: tuple[str, ...] = ()) -> GrowthRow:
        exponents = (Estimate((low + high) / 2, low, high),)
        return GrowthRow("inductor", (10,), (seconds,), (1 << 30,), exponents, exponents, found)

    assert still_grows(row(1.9, 2.1, found=("slow-compile",)), "slow-compile", LIMIT) is True
    assert still_grows(row(1.4, 1.9), "slow-compile", LIMIT) is None
    assert still_grows(row(1.0, 1.2), "memory", LIMIT) is False
    assert still_grows(row(1.9, 2.1, seconds=0.1), "slow-compile", LIMIT) is False


def test_a_finding_names_the_clock_that_decided() -> None:
    twice = (measured(2.0), measured(2.0))
    assert "ms of CPU time" in slow_sentence(PerfRow("inductor", "eager", SLOW, twice, FLOOR), LIMIT)
    assert "ms of wall time" in slow_sentence(PerfRow("inductor:device=cuda", "eager", SLOW, twice, FLOOR), LIMIT)
    assert "ms of wall time" in slow_sentence(PerfRow("inductor", "inductor:device=cuda", SLOW, twice, FLOOR), LIMIT)
