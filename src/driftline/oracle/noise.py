"""The noise model: how large a rounding error a legal implementation may make in one operation.

The front ends for torch and ONNX graphs share this module and only tell it which operation they see. All functions work
on float64 numpy arrays. An amplitude is the rms-sized error of the worst legal implementation, elementwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from driftline.core.tensors import Array, numpy_dtype
from driftline.oracle.arithmetic import Arithmetic

ROOT2 = 2.0**0.5
ROOT3 = 3.0**0.5
WEIGHTS = 4  # weights of a cubic interpolation, each of which rounds
NOTHING = 0.3  # share of the samples in which a possible extreme (zero, NaN) is taken
BLOCK = 1 << 15  # elements processed at a time
LARGE = 1 << 20  # bytes: larger amplitudes are stored as float32
REPEATED = 0.2  # share of the largest possible repeated error, so that the limit of the rule covers all of it
FEW_TERMS = 4  # with this many terms or fewer, the ordinary error covers the repeated one
NEARLY = 0.95  # threshold for nearly equal terms: a few others do not change the rounding


def stored(result: Array, arithmetic: Arithmetic, dtype: str) -> Array:
    """Return the error of rounding the result once to `dtype`."""
    return arithmetic.unit(dtype) * np.abs(result)


def has_subnormal(result: Array, arithmetic: Arithmetic, dtype: str) -> bool:
    """True if the result contains a nonzero number below the smallest normal number of its type."""
    parts = (result.real, result.imag) if result.dtype.kind == "c" else (result,)
    return any(bool(((np.abs(part) < arithmetic.smallest_normal(dtype)) & (part != 0)).any()) for part in parts)


def narrowed(value: Array, arithmetic: Arithmetic, dtype: str) -> Array | None:
    """Return the error of rounding an input or constant to the type that the target computes in, or `None` if that type
    holds every value exactly."""
    if dtype not in ("float64", "complex128") or not arithmetic.double_as_single:
        return None
    parts = (value.real, value.imag) if value.dtype.kind == "c" else (value,)
    with np.errstate(all="ignore"):
        held = np.logical_and.reduce([(part.astype(np.float32) == part) | ~np.isfinite(part) for part in parts])
        size = np.where(held, 0.0, arithmetic.unit(dtype) * np.abs(value) + arithmetic.tiny(dtype))
    return size if size.any() else None


def transcendental(result: Array, arithmetic: Arithmetic, dtype: str, *, through_one: bool = False) -> Array:
    """Return the error of a transcendental function, which may return zero where it underflows.

    A fast implementation may return the smallest normal number in place of zero. With `through_one`, the function is
    computed from a number close to one, as in tanh(x) = 1 - 2 / (exp(2x) + 1), and is inaccurate near zero.
    """
    size, smallest = np.abs(result), arithmetic.underflow(dtype)
    error = np.where(size < smallest, size, arithmetic.transcendental(dtype) * size)
    if arithmetic.fast_exp:
        error = np.maximum(error, smallest)
        error = error + arithmetic.transcendental(dtype) if through_one else error
    return error


def summed(result: Array, squares: Array, terms: float, unit: float) -> Array:
    """Return the error of a sum of `terms` products in the worst legal order (one after the other).

    `squares` is the sum of the squared terms. Partial sums of a random walk grow like the square root of the number of
    terms; those of terms with one sign grow linearly. The larger of the two laws holds.
    """
    walk = np.sqrt(np.maximum(squares, 0.0)) / ROOT2
    size = unit * np.sqrt(max(terms, 1.0)) * np.maximum(np.abs(result) / ROOT3, walk)
    # Equal terms round the same way each time, unlike a random walk. By the inequality of Cauchy and Schwarz, the
    # square of a sum equals the sum of squares times the number of terms only where all terms are equal.
    equal = np.square(result) >= NEARLY * squares * terms
    return np.where(equal, np.maximum(size, unit * terms * np.abs(result) / 4), size)


def transposed_terms(weight: Sequence[int], groups: int, strides: Sequence[int], dilations: Sequence[int]) -> float:
    """Return the largest number of products in one result of a transposed convolution: all channels of the group times
    the kernel elements that lie a multiple of the stride apart."""
    sides = zip(weight[2:], strides, dilations, strict=True)
    places = math.prod(math.ceil(side / (stride // math.gcd(stride, dilation))) for side, stride, dilation in sides)
    return float(max(weight[0] // max(groups, 1), 1) * places)


def overflowing(size: Array, peak: Array, largest: float) -> Array:
    """Return the error `size`, with NaN where `peak`, the largest possible partial result, exceeds `largest`: there the
    order of the terms decides whether the sum overflows."""
    return np.where(peak > largest, np.nan, size)


def finite_size(value: Array) -> Array:
    """Return the magnitude of each finite element and 0 for others: an infinity makes a sum infinite in every order."""
    return np.where(np.isfinite(value), np.abs(value), 0.0)


def together(*amplitudes: Array | float) -> Array:
    """Combine the amplitudes of independent errors: the root of the sum of their squares."""
    total: Array | float = 0.0
    for amplitude in amplitudes:
        total = total + np.square(amplitude)
    return np.sqrt(total)


def kept(amplitude: Array | None) -> Array | None:
    """Return the amplitude in the form stored between runs: a large one as float32 where that keeps infinities and
    zeros."""
    if amplitude is None or amplitude.nbytes <= LARGE or amplitude.dtype != np.float64:
        return amplitude
    with np.errstate(all="ignore"):
        short = amplitude.astype(np.float32)
    same_range = np.array_equal(np.isinf(short), np.isinf(amplitude)) and np.array_equal(short == 0, amplitude == 0)
    return short if same_range else amplitude


@dataclass(frozen=True)
class RunningError:
    """Errors that accumulate: in a running sum, the error made at one index is part of all later results. Each error is
    small, but they all have the same sign, which independently drawn errors would not show."""

    steps: Array  # size of the error made at each index
    axis: int
    factor: Array | float = 1.0  # factor of the accumulated error in the result

    def drawn(self, result: Array, errors: Callable[[Array], Array]) -> Array:
        """Draw one sample of the accumulated error of each element."""
        return np.asarray(np.cumsum(self.steps * errors(result), axis=self.axis) * self.factor)


@dataclass(frozen=True)
class SharedFactors:
    """Errors of factors that are computed once per index of an axis and so are equal for all elements at that index."""

    size: float
    axes: tuple[int, ...]

    def drawn(self, result: Array, errors: Callable[[Array], Array]) -> Array:
        """Draw one sample of the error of each element."""
        total: Array = np.zeros_like(result)
        for axis in self.axes:
            shape = [size if at == axis else 1 for at, size in enumerate(result.shape)]
            total = total + result * self.size * errors(np.zeros(shape, result.dtype))
        return total


@dataclass(frozen=True)
class RepeatedError:
    """Errors that have the same sign in all elements: nearly equal terms that are added one after the other to the same
    large number round alike every time."""

    size: Array

    def drawn(self, result: Array, errors: Callable[[Array], Array]) -> Array:
        """Draw one sample of the error, with a common sign for all elements."""
        return self.size * errors(np.zeros((), result.dtype))


def repeated_error(
    result: Array, added: Array, squares: Callable[[], Array], terms: float, accumulator: float
) -> RepeatedError | None:
    """Return the error of adding nearly equal products to the number `added`, or `None` if the products are not equal
    enough.

    Each addition rounds the same way in every element. `squares` returns the sum of the squared products. `summed`
    cannot detect this case, because it counts `added` among the terms: `added` need only be larger than each product.
    """
    with np.errstate(all="ignore"):
        products = np.abs(result - added)
        if terms < FEW_TERMS or not bool((np.abs(added) * terms >= products).any()):
            return None
        equal = (np.square(products) >= NEARLY * squares() * terms) & np.isfinite(products)
    if not bool(equal.any()):
        return None
    return RepeatedError(np.where(equal, REPEATED * accumulator * terms * np.abs(result), 0.0))


@dataclass(frozen=True)
class Products:
    """A sum of products: the sum of their squares, and the number of products."""

    squares: Array
    terms: float

    def begun_with(self, added: Array, result: Array, accumulator: float) -> tuple[Array, RepeatedError | None]:
        """Return the error of adding `added` to this sum, and the part of that error that repeats in every element (or
        `None`).

        A compiler that fuses the two operations may start the sum with `added`, as in Gemm. Results that are exactly
        zero get no error: they come from x - x, or from terms that are all integers.
        """
        with np.errstate(all="ignore"):
            size = summed(result, self.squares + np.square(added), self.terms + 1, accumulator)
        repeated = repeated_error(result, added, lambda: self.squares, self.terms, accumulator)
        return np.where(np.isfinite(size) & (result != 0), size, 0.0), repeated


Joint = RunningError | SharedFactors | RepeatedError  # errors that are correlated between elements


class NoiseSource:
    """Draws the rounding errors of one shadow run. With `on_grid` (every second run) results are also rounded to the
    stored type, so that the effects of a coarse grid (an exact zero, an infinity) appear in the samples."""

    def __init__(self, seed: int, arithmetic: Arithmetic, *, on_grid: bool) -> None:
        self._random = np.random.default_rng(seed)
        self._arithmetic = arithmetic
        self._on_grid = on_grid

    def disturb(self, result: Array, amplitude: Array, dtype: str, joint: Joint | None = None) -> Array:
        """Return the result with errors of size `amplitude`, and one relative error common to all elements, as of a
        constant that was rounded once. `joint` adds errors that are correlated between elements."""
        common = (self._random.random() * 2 - 1) * self._arithmetic.accumulator(dtype)
        if joint is None and result.size > BLOCK and result.flags.c_contiguous and result.shape == amplitude.shape:
            # The same computation in blocks, so that temporary arrays stay in the processor's cache.
            moved = np.empty_like(result)
            flat, sizes, into = result.reshape(-1), np.ascontiguousarray(amplitude).reshape(-1), moved.reshape(-1)
            for start in range(0, result.size, BLOCK):
                part = slice(start, start + BLOCK)
                into[part] = self._moved(flat[part], sizes[part], common, dtype, None)
            return moved
        return self._moved(result, amplitude, common, dtype, joint)

    def narrow(self, value: Array, size: Array) -> Array:
        """Return an input or constant with errors of the given size. Values with size 0 are unchanged, and no error
        makes a finite number infinite."""
        with np.errstate(all="ignore"):
            moved = value + size * self._errors(value)
        return np.where((size > 0) & np.isfinite(moved), moved, value)

    def _moved(self, result: Array, amplitude: Array, common: float, dtype: str, joint: Joint | None) -> Array:
        with np.errstate(all="ignore"):
            moved = result * (1.0 + common)
            errors = self._errors(result)
            moved += amplitude * errors
            # An error as large as the number itself may make it zero, where logarithms and quotients are not finite.
            vanishing = amplitude >= np.abs(result)
            if vanishing.any():
                vanishing &= np.isfinite(result) & (np.abs(errors) < NOTHING)
                moved = np.where(vanishing, 0.0, moved)
            nothing = (result == 0) & (amplitude == 0)
            if nothing.any() and result.dtype.kind == "f":  # an exact zero, but its sign is not defined
                moved = np.where(nothing, np.copysign(0.0, errors), moved)
            if joint is not None:
                moved += joint.drawn(result, self._errors)
            if not np.isfinite(moved.sum()):
                # A rounding error does not make a finite number infinite. An overflow in between does, to either
                # infinity, and two opposite infinities add up to NaN.
                overflown = np.where(np.abs(errors) < NOTHING, np.nan, np.copysign(np.inf, errors.real))
                beyond = np.isnan(amplitude) & ~np.isnan(result)
                moved = np.where(beyond, overflown, np.where(np.isfinite(moved), moved, result))
            return self._rounded(moved, dtype)

    def _errors(self, like: Array) -> Array:
        """Draw errors uniformly between -1 and 1 in the shape of `like`; real and imaginary parts are independent."""
        parts = 2 if like.dtype.kind == "c" else 1
        errors = self._random.random((parts, *like.shape), dtype=np.float32)
        errors *= np.float32(2.0)
        errors -= np.float32(1.0)
        return errors[0] if parts == 1 else errors[0] + 1j * errors[1]

    def _rounded(self, result: Array, dtype: str) -> Array:
        if not self._on_grid or dtype in ("float64", "complex128"):
            return result
        return result.astype(numpy_dtype(dtype)).astype(result.dtype)
