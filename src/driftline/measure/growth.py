"""How fast something grows with the size of a program: the exponent of a power law, with its interval.

What a program without operators would need (start-up, imports) is taken off first, where what is left is more than
noise: a large constant would make any curve look flat. It is where the line through the two smallest sizes begins, and
never less than nothing: exact for what grows linearly, and too little, if anything, for what grows faster. Then a
straight line is fitted to the logarithms over the larger half of the sizes. The interval comes from resampling the
measurements of each size, and also reaches as far as leaving out any one size moves the exponent: a curve that is no
power law must not look certain.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftline.measure.estimate import Estimate, Samples, interval

FEWEST_SIZES = 3  # beside the smallest
_TELLING = 0.25  # an increase by this share of what the smallest needs is more than noise
_RESAMPLES = 2000
_LEAST = 1e-9
_Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def exponent_of(sizes: Sequence[int], samples: Sequence[Sequence[float]], seed: int = 0) -> Estimate:
    """The exponent with which samples grow; those of one size have its place. The first size is the smallest, and at
    least `FEWEST_SIZES` follow it."""
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
    """What a program of no size would need, for each column."""
    slope = (values[1] - values[0]) / (sizes[1] - sizes[0])
    constants: Samples = np.clip(values[0] - slope * sizes[0], 0.0, values[0])
    return constants


def _logarithms(values: _Table) -> _Table:
    logs: _Table = np.log(np.maximum(values, _LEAST))
    return logs


def _slopes(scale: Samples, logs: _Table) -> Samples:
    """Of the least-squares line through each column."""
    centred = scale - scale.mean()
    slopes: Samples = centred @ logs / float(centred @ centred)
    return slopes
