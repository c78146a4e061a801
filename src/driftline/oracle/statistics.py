"""Measure how far a result exceeds legal rounding: elementwise, and in aggregates for drifts too small to see
elementwise.

All numbers are in units of sigma, the rms movement of the float64 result under the rounding errors of a legal
implementation, estimated from the shadow's samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.arithmetic import Arithmetic

ELEMENT_LIMIT = 8.0  # a single element further away than this is wrong
AGGREGATE_LIMIT = 10.0  # a weighted sum over many elements further away than this is biased
POOLED_LIMIT = 6.0  # limit for sums over several inputs, where noise averages out but a bias does not
STRAYED = 3.0  # an element may stray this many times as far as the worst sample: tails can be long
ILL_CONDITIONED = 0.25  # where sigma is this share of the value, there is nothing to compare
GROSS = 1000.0  # an error this many times the largest of the tensor's noise is always wrong
BAND_IN_SIGMA = 4.0  # width of the band of steps in sigma, where many independent steps add up
UNIFORM_RMS = 0.58  # rms of a rounding error in units of the largest one
ROUNDED_REFERENCE = 2.0**0.5  # a float64 reference is rounded as coarsely as the result compared with it


@dataclass(frozen=True)
class Noise:
    """The rounding noise of one output, from the shadow. `low` and `high` bound the results of legal steps and
    choices."""

    reference: Array
    deviations: Array  # one row per sample: sample - reference; NaN where the sample is not finite
    low: Array
    high: Array
    steps_move: bool = False  # True if the spread of legal steps counts as movement

    @cached_property
    def movement(self) -> Array:
        """The rms movement of each element, or more where a single sample strays far. Jumps within the band of legal
        steps are not counted, because they must not excuse a jump to a value outside the band."""
        deviations = self.deviations
        stepping = self.low != self.high
        if stepping.any():
            samples = self.reference + deviations
            deviations = np.where(stepping, samples - np.clip(samples, self.low, self.high), deviations)
        far = np.max(np.abs(deviations), axis=0, initial=0.0)
        moved = np.maximum(np.sqrt(np.mean(np.square(deviations), axis=0)), STRAYED / ELEMENT_LIMIT * far)
        return np.maximum(moved, (self.high - self.low) / BAND_IN_SIGMA) if self.steps_move else moved

    @cached_property
    def steady(self) -> Array:
        """A mask of the elements that are finite in every sample."""
        return np.asarray(np.isfinite(self.deviations).all(axis=0))


@dataclass(frozen=True)
class Deviation:
    """The largest deviation of a tensor. `aggregate` is the largest drift, and `direction` names the weighted sum that
    shows it, such as `scale over slices of axis 1`."""

    element: float
    place: tuple[int, ...]
    error: float
    sigma: float
    aggregate: float
    direction: str
    scores: Array  # of every element, in sigma
    sigmas: Array
    unjudged: Array
    noisy: int  # unjudged elements that move too much
    totals: dict[str, tuple[float, float]]  # direction -> sum and variance over the whole tensor, for pooling


def measure(
    got: Array,
    noise: Noise,
    dtype: str,
    arithmetic: Arithmetic,
    *,
    aggregates: bool = True,
    native: Array | None = None,
    worst_case: float = 0.0,
) -> Deviation:
    """Measure the deviation of a result from the shadow's reference. Elements that are not finite are ignored.

    With `native` (the unoptimised run) and `worst_case`, gross errors are also found in elements that are too noisy to
    be judged otherwise.
    """
    unit, tiny = arithmetic.unit(dtype), arithmetic.tiny(dtype)
    with np.errstate(all="ignore"):
        reference = noise.reference
        widen = ROUNDED_REFERENCE if dtype in ("float64", "complex128") else 1.0
        sigma = _sigma(noise, unit, tiny) * widen
        judged = np.isfinite(got) & np.isfinite(reference) & noise.steady
        quiet = sigma <= ILL_CONDITIONED * np.maximum(np.abs(reference), typical_size(reference, judged)) + 4 * tiny
        nearest = np.clip(got, noise.low, noise.high)  # within the band of legal steps nothing is wrong
        # np.minimum of scalars returns no array
        off = np.asarray(np.minimum(np.abs(got - reference), np.abs(got - nearest)))
        gross = np.asarray(judged & ~quiet)
        if native is not None and worst_case > 0 and gross.any():
            limit = GROSS * _farthest(noise, native, judged)
            gross &= (off > limit) & (off > worst_case * sigma)
            gross[gross] = off[gross] > limit * _tails(noise, native, gross)
        else:
            gross = np.zeros_like(judged)
        noisy = int((judged & ~quiet & ~gross).sum())
        judged &= quiet
        excess = np.maximum(off - unit * np.abs(reference) - 4 * tiny, 0.0)
        z = np.where(judged | gross, excess / sigma, 0.0)
        place = np.unravel_index(int(np.argmax(z)), z.shape) if z.size else ()
        aggregate, direction = 0.0, ""
        totals: dict[str, tuple[float, float]] = {}
        if aggregates:
            settled = judged & (noise.low == noise.high) & _distinct(got, reference)
            movements = noise.deviations if widen == 1.0 else noise.deviations * widen
            own = UNIFORM_RMS * unit * widen * np.abs(reference) + tiny
            aggregate, direction, totals = _aggregate(got - reference, reference, movements, sigma, settled, own)
    return Deviation(
        element=float(z[place]) if z.size else 0.0,
        place=tuple(int(i) for i in place),
        error=float(off[place]) if z.size else 0.0,
        sigma=float(sigma[place]) if z.size else 0.0,
        aggregate=aggregate,
        direction=direction,
        scores=z,
        sigmas=sigma,
        unjudged=~(judged | gross) & np.isfinite(reference),
        noisy=noisy,
        totals=totals,
    )


def rms_error(got: Array, noise: Noise, dtype: str, arithmetic: Arithmetic) -> float:
    """Return the rms of the errors of a tensor, each in units of its own sigma, over the elements that can be
    judged."""
    with np.errstate(all="ignore"):
        sigma = _sigma(noise, arithmetic.unit(dtype), arithmetic.tiny(dtype))
        error = got - np.clip(got, noise.low, noise.high) if (noise.low != noise.high).any() else got - noise.reference
        z = error / sigma
        z = z[np.isfinite(z) & noise.steady]
        return float(np.sqrt(np.mean(np.square(z)))) if z.size else 0.0


def _sigma(noise: Noise, unit: float, tiny: float) -> Array:
    """Return the rms movement of each element, but at least the rounding of the result itself and a share of the
    tensor's usual movement: a few samples can all lie close by chance."""
    magnitude = np.abs(noise.reference)
    movement = noise.movement
    relative = movement / np.where(magnitude > 0, magnitude, np.inf)
    usual = float(np.median(relative[np.isfinite(relative)])) if np.isfinite(relative).any() else 0.0
    return np.maximum(movement, np.maximum(UNIFORM_RMS * unit, 0.3 * usual) * magnitude) + tiny


def _farthest(noise: Noise, native: Array, steady: Array) -> float:
    """Return the largest magnitude in the reference or the largest movement in any run, over the whole tensor."""
    moved = np.abs(noise.deviations[:, steady]).max(initial=0.0)
    own = np.abs(native - noise.reference)[steady & np.isfinite(native)].max(initial=0.0)
    return float(max(moved, own, np.abs(noise.reference[steady]).max(initial=0.0)))


def _tails(noise: Noise, native: Array, chosen: Array) -> Array:
    """Return a factor for how much further than in these runs an element may stray in another run: the square of its
    largest over its lower-quartile magnitude. A quotient by nearly zero, or the exponential of a noisy number, varies
    by orders of magnitude."""
    reference = noise.reference[chosen]
    own = np.where(np.isfinite(native[chosen]), native[chosen], reference)
    sizes = np.sort(np.abs(np.stack([*(reference + noise.deviations[:, chosen]), own, reference])), axis=0)
    ratio: Array = np.square(sizes[-1] / sizes[len(sizes) // 4])
    return ratio


def typical_size(reference: Array, judged: Array) -> float:
    """Return the rms of the judged elements: an element that cancels to nearly zero may move by more than its own
    size."""
    values = reference[judged]
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0


def pooled(many: Sequence[Mapping[str, tuple[float, float]]]) -> tuple[float, str]:
    """Return the largest deviation, in sigma, when the totals of several inputs are added up, and its direction."""
    worst, name = 0.0, ""
    for direction in {key for totals in many for key in totals}:
        found = [totals[direction] for totals in many if direction in totals]
        variance = sum(v for _, v in found)
        z = abs(sum(t for t, _ in found)) / variance**0.5 if variance > 0 else 0.0
        if z > worst:
            worst, name = z, direction
    return worst, name


def _aggregate(
    error: Array, reference: Array, deviations: Array, sigma: Array, judged: Array, rounding: Array
) -> tuple[float, str, dict[str, tuple[float, float]]]:
    """Return the most unlikely weighted sum of errors, over everything and over each slice of each axis: its size in
    sigma, its direction, and the totals for pooling. `rounding`: how far rounding the result alone moves each element.
    """
    worst, name = 0.0, ""
    totals: dict[str, tuple[float, float]] = {}
    error = np.where(judged, error, 0.0)
    spread = deviations if judged.all() else np.where(judged, deviations, 0.0)
    weights = {
        "scale": np.where(judged, reference / np.square(sigma), 0.0),
        "mean": np.where(judged, 1.0 / sigma, 0.0),
    }
    own = np.square(np.where(judged, rounding, 0.0))
    for kind, weight in weights.items():
        weighted, weighted_spread, floor = error * weight, spread * weight, np.square(weight) * own
        for label, axes in _slices(error.ndim):
            total = weighted.sum(axis=axes)
            samples = weighted_spread.sum(axis=tuple(a + 1 for a in axes))
            usual = np.sqrt(np.maximum(np.mean(np.square(samples), axis=0), floor.sum(axis=axes)))
            if len(axes) == error.ndim:
                totals[kind] = (float(total), float(usual) ** 2)
            z = np.where(usual > 0, np.abs(total) / np.where(usual > 0, usual, 1.0), 0.0)
            largest = float(np.max(z)) if z.size else 0.0
            if largest > worst:
                worst, name = largest, f"{kind} over {label}"
    return worst, name, totals


def _distinct(got: Array, reference: Array) -> Array:
    """Return a mask of the first of all elements with equal reference and equal result: they repeat one computation,
    and a rounding error that occurs several times is not a drift."""
    pairs = np.empty(got.size, np.complex128)
    pairs.real, pairs.imag = reference.ravel(), got.ravel()
    first = np.zeros(got.size, bool)
    first[np.unique(pairs, return_index=True)[1]] = True
    return first.reshape(got.shape)


def _slices(dimensions: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "the whole tensor", tuple(range(dimensions))
    if dimensions > 1:
        for axis in range(dimensions):
            yield f"slices of axis {axis}", tuple(a for a in range(dimensions) if a != axis)
