"""Exponents of growth: what is known to be linear or quadratic is found to be that, with a constant and with noise."""

from __future__ import annotations

import numpy as np
import pytest

from driftline.measure.growth import exponent_of

SIZES = (10, 20, 40, 80, 160, 320)


def grown(power: float, *, constant: float = 0.2, spread: float = 0.05, seed: int = 0) -> list[list[float]]:
    """Three samples at each size, the largest 2 s above the constant."""
    rng = np.random.default_rng(seed)
    exact = [constant + 2.0 * (size / SIZES[-1]) ** power for size in SIZES]
    return [[float(value * np.exp(abs(rng.normal(0.0, spread)))) for _ in range(3)] for value in exact]


@pytest.mark.parametrize("power", [1.0, 1.7, 2.0])
@pytest.mark.parametrize("constant", [0.0, 0.2])
def test_the_exponent_of_a_power_law_is_found(power: float, constant: float) -> None:
    found = exponent_of(SIZES, grown(power, constant=constant))
    assert found.low <= found.value <= found.high
    assert abs(found.value - power) < 0.2


def test_linear_growth_is_not_taken_for_more() -> None:
    assert sum(exponent_of(SIZES, grown(1.0, seed=seed)).low > 1.25 for seed in range(100)) == 0


def test_quadratic_growth_is_beyond_the_limit() -> None:
    assert sum(exponent_of(SIZES, grown(2.0, seed=seed)).low > 1.5 for seed in range(100)) >= 95


def test_a_square_is_seen_in_few_sizes() -> None:
    """To 80 operators."""
    few = [grown(2.0, constant=0.0, spread=0.02, seed=seed)[:4] for seed in range(50)]
    assert sum(exponent_of(SIZES[:4], samples).low > 1.5 for samples in few) >= 48
    found = exponent_of(SIZES[:4], [[0.24], [0.86], [3.21], [12.47]])
    assert 1.85 < found.low < found.high < 2.05, "as it was measured once"


def test_a_line_in_few_sizes_is_not_taken_for_more() -> None:
    found = [exponent_of(SIZES[:4], grown(1.0, seed=seed)[:4]).low for seed in range(100)]
    assert sum(low > 1.5 for low in found) == 0


def test_what_does_not_grow_has_an_exponent_of_nothing() -> None:
    rng = np.random.default_rng(1)
    flat = [[float(0.5 * np.exp(abs(rng.normal(0.0, 0.05)))) for _ in range(3)] for _ in SIZES]
    assert abs(exponent_of(SIZES, flat).value) < 0.2


def test_a_curve_that_bends_has_a_wide_interval() -> None:
    """Flat up to 160, then five times as much: no power law, and the interval says so."""
    found = exponent_of(SIZES, [[1.0] * 3, [1.0] * 3, [1.0] * 3, [1.0] * 3, [1.0] * 3, [5.0] * 3])
    assert found.low < 0.5 and found.high > 1.5
