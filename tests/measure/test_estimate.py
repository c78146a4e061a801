"""Estimates of times: intervals that hold what they should, and conclusions that need more than noise."""

from __future__ import annotations

import numpy as np
import pytest

from driftline.measure.estimate import Estimate, beyond, change_of, median_of, noise_floor, ratio_of


def times(seed: int, count: int = 20, factor: float = 1.0, spread: float = 0.03) -> list[float]:
    """Skewed, with an outlier now and then, as times are."""
    rng = np.random.default_rng(seed)
    drawn = factor * 0.01 * np.exp(np.abs(rng.normal(0.0, spread, count)))
    drawn[rng.random(count) < 0.1] *= 3.0
    return [float(value) for value in drawn]


@pytest.mark.parametrize("rounds", [8, 15, 20])
def test_a_program_against_itself_is_within_the_interval(rounds: int) -> None:
    """99 of 100 times; by chance it may be some more or less."""
    pairs = ((times(seed, rounds), times(seed + 500, rounds)) for seed in range(300))
    outside = sum(not ratio.low <= 1.0 <= ratio.high for ratio in (ratio_of(*pair) for pair in pairs))
    assert outside <= 7


@pytest.mark.parametrize("factor", [1.5, 0.5, 4.0])
def test_a_real_factor_is_found_in_spite_of_outliers(factor: float) -> None:
    ratio = ratio_of(times(1, factor=factor), times(2))
    assert ratio.low < factor < ratio.high
    assert ratio.high / ratio.low < 1.2
    assert beyond(ratio, 1.05) == (1 if factor > 1 else -1)
    assert ratio.inverse().value == pytest.approx(1 / ratio.value)


def test_what_disturbs_both_of_a_round_does_not_count() -> None:
    """The machine is three times slower in half of the rounds: paired ratios do not see it, medians do."""
    slow = np.where(np.arange(40) % 2 == 0, 1.0, 3.0)
    first, second = np.array(times(3, 40, factor=1.2)) * slow, np.array(times(4, 40)) * slow
    assert ratio_of(list(first), list(second)).high < 1.3
    assert median_of(list(first)).high / median_of(list(first)).low > 2.0


def test_times_that_were_not_taken_in_pairs() -> None:
    change = change_of(times(5), times(6, count=14, factor=1.3))
    assert change.low < 1.3 < change.high and beyond(change, 1.05) == 1
    assert beyond(change_of(times(7), times(8)), 1.05) == 0


def test_nothing_is_concluded_within_the_noise() -> None:
    floor = noise_floor(Estimate(1.0, 0.9, 1.05))
    assert floor == pytest.approx(1 / 0.9)
    assert beyond(Estimate(1.12, 1.08, 1.2), floor) == 0
    assert beyond(Estimate(1.2, 1.13, 1.3), floor) == 1
    assert beyond(Estimate(0.8, 0.75, 0.89), floor) == -1
    assert beyond(Estimate(0.8, 0.75, 0.95), floor) == 0


def test_estimates_repeat() -> None:
    assert median_of(times(9)) == median_of(times(9))
    one = median_of([2.0])
    assert one == Estimate(2.0, 2.0, 2.0)
