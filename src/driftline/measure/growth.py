"""Estimate how fast a cost grows with the size of a program: the exponent of a power law, with its interval.

The constant cost of a program without operators (start-up, imports) is subtracted first, if the increase is more than
noise, since a large constant makes any curve look flat. The constant is where the line through the two smallest sizes
meets size zero, and at least 0: exact for linear growth, and too small, if anything, for faster growth. Then a straight
line is fitted to the logarithms over the larger half of the sizes. The interval comes from resampling the measurements
of each size; it is widened to contain the exponents found when any one size is left out, so that a curve which is no
power law does not look certain.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftline.measure.estimate import Estimate, Samples, interval

FEWEST_SIZES = 3  # beside the smallest
_TELLING = 0.25  # an increase by this share of the smallest size's cost is more than noise
_RESAMPLES = 2000
_LEAST = 1e-9
_Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def exponent_of(sizes: Sequence[int], samples: Sequence[Sequence[float]], seed: int = 0) -> Estimate:
    """Estimate the exponent with which the samples grow. `samples` has one sequence for each of the `sizes`; at least
    `FEWEST_SIZES` sizes follow the smallest.
    """
    rng = np.random.default_rng(seed)
    taken = [np.asarray(values, np.float64) for values in samples]
    drawn = np.stack([np.median(v[rng.integers(0, len(v), (_RESAMPLES, len(v)))], axis=1) for v in taken])
    medians = np.array([[float(np.median(values))] for values in taken])
    used = max(FEWEST_SIZES, len(sizes) // 2)
    scale = np.asarray(sizes, np.float64)
    if bool(np.all(medians[-used:] > (1 + _TELLING) * medians[0])):
        drawn, medians = drawn - _constants(scale, drawn), medians - _constants(scale, medians)
    scale, drawn, medians = np.log(scale[-used:]), _logarithms(drawn[-used:]), _logarithms(medians[-used:])
    low, high = interval(_slopes(scale, drawn))
    for left_out in range(used):
        kept = [at for at in range(used) if at != left_out]
        slope = float(_slopes(scale[kept], medians[kept])[0])
        low, high = min(low, slope), max(high, slope)
    return Estimate(float(_slopes(scale, medians)[0]), low, high)


def _constants(sizes: Samples, values: _Table) -> Samples:
    """Estimate the cost of a program of size zero, for each column."""
    slope = (values[1] - values[0]) / (sizes[1] - sizes[0])
    constants: Samples = np.clip(values[0] - slope * sizes[0], 0.0, values[0])
    return constants


def _logarithms(values: _Table) -> _Table:
    logs: _Table = np.log(np.maximum(values, _LEAST))
    return logs


def _slopes(scale: Samples, logs: _Table) -> Samples:
    """Return the slope of the least-squares line through each column."""
    centred = scale - scale.mean()
    slopes: Samples = centred @ logs / float(centred @ centred)
    return slopes
