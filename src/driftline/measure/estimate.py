"""Compute medians and ratios with bootstrap intervals, and conclusions from them.

Times are skewed and have outliers, so nothing here is a mean or assumes a normal distribution. A ratio is that of two
times of the same round; its logarithm is what is resampled. Resampling a median of few rounds gives intervals that are
too narrow (in place of 99 %, some 97 % at 6 to 15 rounds): an interval here also reaches as far as the order of the
samples alone demands, which holds whatever their distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Samples = np.ndarray[tuple[int], np.dtype[np.float64]]
CONFIDENCE = 0.99
_RESAMPLES = 4000


@dataclass(frozen=True)
class Estimate:
    """A number with an interval that contains the true value with confidence `CONFIDENCE`."""

    value: float
    low: float
    high: float

    def inverse(self) -> Estimate:
        """Return the inverse of a ratio."""
        return Estimate(1 / self.value, 1 / self.high, 1 / self.low)


def median_of(samples: Sequence[float], seed: int = 0) -> Estimate:
    """Estimate the median of independent samples."""
    values = np.asarray(samples, np.float64)
    low, high = _interval_of_median(values, seed)
    return Estimate(float(np.median(values)), low, high)


def ratio_of(first: Sequence[float], second: Sequence[float], seed: int = 0) -> Estimate:
    """Estimate how many times longer `first` takes than `second`; the samples were taken in pairs, round by round."""
    logs = np.log(np.asarray(first, np.float64)) - np.log(np.asarray(second, np.float64))
    low, high = _interval_of_median(logs, seed)
    return Estimate(math.exp(float(np.median(logs))), math.exp(low), math.exp(high))


def change_of(before: Sequence[float], after: Sequence[float], seed: int = 0) -> Estimate:
    """Estimate how many times longer `after` takes than `before`; the samples were not taken in pairs."""
    logs = [np.log(np.asarray(samples, np.float64)) for samples in (before, after)]
    low, high = interval(_medians(logs[1], seed) - _medians(logs[0], seed + 1))
    value = math.exp(float(np.median(logs[1]) - np.median(logs[0])))
    return Estimate(value, math.exp(low), math.exp(high))


def noise_floor(itself: Estimate) -> float:
    """Return the factor up to which a ratio means nothing, given the ratio of a program against itself."""
    return math.exp(max(abs(math.log(itself.low)), abs(math.log(itself.high))))


def beyond(ratio: Estimate, floor: float) -> int:
    """Return 1 if the ratio is above 1 beyond the noise floor, -1 if below 1, and 0 if nothing can be concluded."""
    if ratio.low > floor:
        return 1
    return -1 if ratio.high < 1 / floor else 0


def _interval_of_median(values: Samples, seed: int) -> tuple[float, float]:
    resampled, ordered = interval(_medians(values, seed)), _order_interval(values)
    return min(resampled[0], ordered[0]), max(resampled[1], ordered[1])


def _order_interval(values: Samples) -> tuple[float, float]:
    """Return the distribution-free interval of the median, from the k-th smallest to the k-th largest sample. With too
    few samples it contains all of them.
    """
    ordered, count = np.sort(values), len(values)
    k, chance = 1, 0.5**count
    while chance + math.comb(count, k) * 0.5**count <= (1 - CONFIDENCE) / 2:
        chance += math.comb(count, k) * 0.5**count
        k += 1
    return float(ordered[k - 1]), float(ordered[-k])


def _medians(values: Samples, seed: int) -> Samples:
    """Return the medians of resamples drawn with replacement."""
    draws = np.random.default_rng(seed).integers(0, len(values), (_RESAMPLES, len(values)))
    medians: Samples = np.median(values[draws], axis=1)
    return medians


def interval(medians: Samples) -> tuple[float, float]:
    """Return the interval that contains a share `CONFIDENCE` of the resampled medians."""
    rest = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [rest, 1 - rest])
    return float(low), float(high)
