"""Arithmetic for operators that are executed step by step, each step with its own rounding error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.left_to_right import sum_error
from driftline.oracle.noise import (
    NoiseSource,
    RepeatedError,
    finite_size,
    overflowing,
    stored,
    summed,
    together,
    transcendental,
)


@dataclass(frozen=True)
class Steps:
    """Arithmetic in which every step may round. Without a noise source no step makes an error."""

    dtype: str
    arithmetic: Arithmetic
    noise: NoiseSource | None

    def round(self, result: Array) -> Array:
        """Return a sum, product or quotient of two numbers with its rounding error."""
        return self._disturbed(result, lambda: stored(result, self.arithmetic, self.dtype))

    def accumulate(self, result: Array, through: float = 0.0) -> Array:
        """Return one partial sum of a longer sum, with its error. `through`: the size of a larger number rounded on the
        way."""
        unit = self.arithmetic.accumulator(self.dtype)
        return self._disturbed(result, lambda: unit * (np.abs(result) + through))

    def shared(self, result: Array, axis: int, roundings: int) -> Array:
        """Return the result times factors that are computed once per index of an axis, each with the error of some
        roundings."""
        shape = [1] * result.ndim
        shape[axis] = result.shape[axis]
        factors = np.ones(shape)
        unit = self.arithmetic.accumulator(self.dtype)
        return result * self._disturbed(factors, lambda: np.full(shape, roundings * unit))

    def function(self, result: Array, through: float = 0.0) -> Array:
        """Return the result of a transcendental function with its error. `through`: the size of a larger number on the
        way."""
        unit = self.arithmetic.transcendental(self.dtype)
        return self._disturbed(result, lambda: transcendental(result, self.arithmetic, self.dtype) + unit * through)

    def root(self, x: Array) -> Array:
        """Return the square root of `x` with its error."""
        result = np.sqrt(x)
        return self._disturbed(result, lambda: transcendental(result, self.arithmetic.with_exact_roots, self.dtype))

    def overflow(self, result: Array, peak: Array) -> Array:
        """Return the result, as infinity or NaN where the intermediate value `peak` may overflow."""
        largest = self.arithmetic.largest_sum(self.dtype)
        if not bool((peak > largest).any()):
            return result
        return self._disturbed(result, lambda: overflowing(np.zeros(result.shape), peak, largest))

    def dot(self, left: Array, right: Array) -> Array:
        result = left @ right
        return self._disturbed(result, lambda: self._dot_size(left, right, result))

    def total(self, products: Sequence[tuple[Array, Array]], *addends: Array) -> Array:
        """Return the sum of some matrix products and of numbers that are added to them, as infinity or NaN where the
        terms overflow in some order."""
        result = self.round(np.asarray(sum((*(self.dot(left, right) for left, right in products), *addends))))
        if self.noise is None:
            return result
        sizes = (*(finite_size(left) @ finite_size(right) for left, right in products), *map(finite_size, addends))
        return self.overflow(result, np.broadcast_to(sum(sizes), result.shape))

    def sum(self, x: Array, axes: tuple[int, ...]) -> Array:
        return self._summed(x, axes, 1)

    def mean(self, x: Array, axes: tuple[int, ...]) -> Array:
        return self._summed(x, axes, max(math.prod(x.shape[a] for a in axes), 1))

    def _summed(self, x: Array, axes: tuple[int, ...], divisor: int) -> Array:
        """Return the sum along the axes divided by `divisor`, with its error."""
        shares = x / divisor if divisor > 1 else x
        result = np.sum(shares, axis=axes, keepdims=True)
        if self.noise is None:
            return result
        in_order = sum_error(x, axes, self.arithmetic.accumulating(self.dtype))
        joint = None if in_order is None else RepeatedError(in_order / divisor)
        return self._disturbed(result, lambda: self._sum_size(shares, axes, result, divisor), joint)

    def _sum_size(self, shares: Array, axes: tuple[int, ...], result: Array, divisor: int) -> Array:
        count = float(shares.size / max(result.size, 1))
        squares = np.sum(np.square(shares), axis=axes, keepdims=True)
        size = together(
            summed(result, squares, count, self.arithmetic.accumulator(self.dtype)),
            stored(result, self.arithmetic, self.dtype),
        )
        peak = np.sum(finite_size(shares), axis=axes, keepdims=True) * divisor
        return overflowing(size, peak, self.arithmetic.largest_sum(self.dtype))

    def _dot_size(self, left: Array, right: Array, result: Array) -> Array:
        squares = np.square(left) @ np.square(right)
        size = summed(result, squares, float(left.shape[-1]), self.arithmetic.accumulator(self.dtype))
        factors = 2 * self.arithmetic.product(self.dtype) * np.sqrt(squares)
        return together(size, factors, stored(result, self.arithmetic, self.dtype))

    def _disturbed(self, result: Array, amplitude: Callable[[], Array], joint: RepeatedError | None = None) -> Array:
        if self.noise is None:
            return result
        size = amplitude() + self.arithmetic.tiny(self.dtype)
        return np.asarray(self.noise.disturb(result, size, self.dtype, joint))


Composite = Callable[[Steps, Any, list[Any], dict[str, Any]], tuple[Array, ...]]
