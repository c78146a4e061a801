"""Compare outputs with a reference for programs without a shadow: TensorFlow, JAX, and torch that cannot be recorded.

A float passes if it lies within the estimated rounding error, which has three sources: the rounding of the result
itself, the change of the float64 result when inputs move by one rounding error (conditioning), and the error of the
unoptimised run against float64 (the noise of the algorithm). Steps that rounding decides may fall to either side too,
where the reference can tell which ones (`references/jax_steps.py`). The factors are generous: this rule may miss small
errors but must not raise false alarms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from driftline.core.evidence import NOTHING, Evidence, Fault
from driftline.core.faults import faults_of, narrower_than
from driftline.core.tensors import Array, is_float
from driftline.core.verdict import Kind
from driftline.oracle.differing import elements, places, regions_of

# Factors of the allowance: rounding of the result, spread of the element, spread of the tensor, largest and rms error
# of the unoptimised run, and one rounding of the tensor's scale.
OWN_ROUNDING = 8.0
SPREAD = 32.0
TYPICAL_SPREAD = 16.0
WORST_NATIVE_ERROR = 4.0
RMS_NATIVE_ERROR = 16.0
TENSOR_SCALE = 4.0
QUANTA = 4.0  # in place of both spreads where the effect of quanta was measured at each step
STEPS = "steps:"  # prefix of an output's name, in a spread, for how far its elements move by steps
# Without a float64 run the algorithm's noise is unknown: allow this many roundings of the largest element.
BLIND = 64.0


@dataclass(frozen=True)
class Expected:
    """The reference values of one output: from the unoptimised run, from float64, and how far rounding moves them."""

    native: Array
    exact: Array | None
    spread: Array | None  # NaN where terms overflow on the way
    steps: Array | None = None  # how far steps and choices move the elements if they fall to another side
    by_quanta: bool = False  # the spread measures quanta at each step, not the rounding of inputs


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison. `kind` is `None` if the values agree; `evidence.ratio` is the largest error divided
    by the allowed error; `unjudged` counts the elements that could not be judged."""

    kind: Kind | None = None
    evidence: Evidence = NOTHING
    unjudged: int = 0


def compare_values(got: Array, expected: Expected, signed_zero: bool = False) -> Comparison:
    """Compare two arrays of the same dtype and shape."""
    if got.size == 0 or got.tobytes() == expected.native.tobytes():
        return Comparison()
    if got.dtype.kind == "c":
        return _compare_complex(got, expected, signed_zero)
    if is_float(got.dtype.name):
        return _compare_floats(got, expected, signed_zero)
    return _compare_exactly(got, expected)


def _compare_exactly(got: Array, expected: Expected) -> Comparison:
    wrong = got != expected.native
    if expected.exact is not None and expected.exact.dtype == got.dtype:
        wrong &= got != expected.exact  # a step (floor, a comparison) that rounding may decide either way
    with np.errstate(all="ignore"):
        far = np.abs(got.astype(np.float64) - expected.native.astype(np.float64))
    if expected.steps is not None:
        wrong &= ~(far <= expected.steps)
    if not wrong.any():
        return Comparison()
    return Comparison(Kind.WRONG_VALUE, _evidence(expected.native, got, wrong, far))


def _compare_complex(got: Array, expected: Expected, signed_zero: bool) -> Comparison:
    exact = expected.exact
    # NaN and Inf in complex arithmetic depend on how a product is written out, so elements are not judged where the
    # program itself has them.
    finite = np.isfinite(expected.native) if exact is None else np.isfinite(expected.native) & np.isfinite(exact)
    got = np.where(finite, got, expected.native)
    for part in ("real", "imag"):
        half = Expected(
            getattr(expected.native, part), None if exact is None else getattr(exact, part), expected.spread
        )
        comparison = _compare_floats(getattr(got, part), half, signed_zero)
        if comparison.kind:
            return replace(comparison, evidence=replace(comparison.evidence, part=part))
    return Comparison()


def _compare_floats(got: Array, expected: Expected, signed_zero: bool) -> Comparison:
    import ml_dtypes

    dtype = got.dtype
    unit = float(ml_dtypes.finfo(dtype).eps) / 2
    tiny = float(ml_dtypes.finfo(dtype).smallest_normal)
    with np.errstate(all="ignore"):
        native = expected.native.astype(np.float64)
        exact = native if expected.exact is None else expected.exact.astype(np.float64)
        stored = exact.astype(dtype).astype(np.float64)  # what a perfect compiler would return
        value = got.astype(np.float64)
        spread = np.zeros(value.shape) if expected.spread is None else expected.spread.astype(np.float64)

        # Where the program's own arithmetic overflows or loses a NaN but float64 does not, either result is legal.
        same = _class(native) == _class(stored)
        steps = np.zeros(value.shape) if expected.steps is None else expected.steps
        judged = same & np.isfinite(spread) & np.isfinite(steps)
        if expected.by_quanta:  # eight bits cannot hold NaN or infinities
            judged &= np.isfinite(stored)
        wrong_class = judged & (_class(value) != _class(stored))
        # Where terms overflow in between, any infinity or NaN is legal. A finite number is not, if the float64 result
        # is beyond the range.
        wrong_class |= same & np.isnan(spread) & np.isinf(stored) & np.isfinite(exact) & np.isfinite(value)
        # At the edge of the range, rounding decides between the largest number and infinity. Far beyond the range, and
        # for an exact infinity, the largest number means that the result was clamped.
        largest = float(ml_dtypes.finfo(dtype).max)
        near_overflow = np.abs(np.abs(exact) - largest) <= 4 * unit * largest + SPREAD * np.fmax(spread, 0.0)
        wrong_class &= ~(near_overflow & ~np.isnan(value))
        unjudged = int((~judged).sum())
        if wrong_class.any():
            found = _evidence(expected.native, got, wrong_class)
            return Comparison(Kind.WRONG_NONFINITE, replace(found, wrong_nonfinite=found.wrong), unjudged)

        finite = judged & np.isfinite(stored) & np.isfinite(value)
        allowed = _steps(got) * unit * np.where(finite, np.abs(exact), 0.0) + _allowance(
            exact, native, spread, finite, unit, tiny, blind=expected.exact is None, by_quanta=expected.by_quanta
        )
        allowed = allowed + np.where(finite, steps, 0.0) * (1 + OWN_ROUNDING * unit)
        error = np.where(finite, np.abs(value - exact), 0.0)
        ratio = error / allowed
        worst = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
        place = tuple(int(i) for i in worst)
        near = Evidence(
            dtype=dtype.name,
            elements=got.size,
            unjudged=unjudged,
            worst=elements(exact, value, [place], native, allowed),
            ratio=float(ratio[worst]),
            error=float(error[worst]),
            allowed=float(allowed[worst]),
            native_error=float(np.abs(native - exact)[worst]),
        )
        if ratio[worst] > 1:
            found = _evidence(exact, value, ratio > 1, ratio, dtype.name, native=native, allowed=allowed)
            seen = ("wrong", "worst", "faults", "regions", "narrower")
            near = replace(near, **{name: getattr(found, name) for name in seen})
            return Comparison(Kind.WRONG_VALUE, near, unjudged)
    if signed_zero and (flipped := flipped_zero({"": got}, {"": expected.native})):
        return Comparison(Kind.WRONG_ZERO_SIGN, flipped, unjudged)
    return Comparison(evidence=near, unjudged=unjudged)


def flipped_zero(got: Mapping[str, Array], expected: Mapping[str, Array]) -> Evidence | None:
    """Return evidence for the first output that has a zero of the wrong sign, or `None` if there is none."""
    for name, native in expected.items():
        if is_float(native.dtype.name):
            flipped = (got[name] == 0) & (native == 0) & (np.signbit(got[name]) != np.signbit(native))
            if flipped.any():
                found = _evidence(native, got[name], flipped)
                return replace(found, output=name, faults=(Fault.SIGN,))
    return None


def _evidence(
    expected: Array, got: Array, wrong: Array, order: Array | None = None, dtype: str = "", **more: Array | None
) -> Evidence:
    """Describe the elements where `wrong` is true, listing those with the highest `order` first."""
    name = dtype or got.dtype.name
    at = places(np.zeros(wrong.shape) if order is None else order, wrong)
    worst = elements(expected, got, at, more.get("native"), more.get("allowed"))
    return Evidence(
        dtype=name,
        elements=got.size,
        wrong=int(wrong.sum()),
        worst=worst,
        faults=faults_of(worst, name),
        regions=regions_of(wrong),
        narrower=narrower_than(worst[0], name),
    )


def _allowance(
    exact: Array, native: Array, spread: Array, finite: Array, unit: float, tiny: float, *, blind: bool, by_quanta: bool
) -> Array:
    """Return, for each element, the largest legal distance from the float64 value."""
    magnitudes = np.abs(exact[finite])
    scale = float(np.sqrt(np.mean(np.square(magnitudes)))) if magnitudes.size else 0.0
    if not np.isfinite(scale):
        scale = 0.0
    noise = TENSOR_SCALE * unit * scale
    if blind:
        noise = BLIND * unit * (float(magnitudes.max()) if magnitudes.size else 0.0)
    else:
        errors = np.abs(native[finite] - exact[finite])
        if errors.size:
            rms = float(np.sqrt(np.mean(np.square(errors))))
            noise += max(WORST_NATIVE_ERROR * float(errors.max()), RMS_NATIVE_ERROR * rms)
    # A few runs may all miss the spread of one element; the typical spread of the tensor is known better. It is the
    # median, because one ill-conditioned element must not excuse the others, over elements that move, because relu
    # returns many zeros.
    moving = spread[finite & (spread > 0)]
    if moving.size:
        noise += (QUANTA if by_quanta else TYPICAL_SPREAD) * float(np.median(moving))
    own = OWN_ROUNDING * unit * np.where(finite, np.abs(exact), 0.0)
    times = QUANTA if by_quanta else SPREAD
    return np.asarray(own + times * np.where(finite, spread, 0.0) + noise + tiny)


def _steps(got: Array) -> float:
    """Return how many roundings the float64 reference of a float64 program and the result may have each. A running
    product has as many as the longest axis, and no more precise run tells how many of them show."""
    return 2.0 * max(got.shape, default=1) if got.dtype.itemsize == 8 else 0.0


def _class(values: Array) -> Array:
    """Classify each element: 0 finite, 1 NaN, 2 +Inf, 3 -Inf."""
    return np.where(np.isnan(values), 1, np.where(np.isposinf(values), 2, np.where(np.isneginf(values), 3, 0)))
