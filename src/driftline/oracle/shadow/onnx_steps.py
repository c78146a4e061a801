"""Arithmetic for operators that are played step by step, each step with its own rounding error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.noise import NoiseSource, stored, summed, together


@dataclass(frozen=True)
class Steps:
    """Arithmetic in which every step may round: without a source of noise, none does."""

    dtype: str
    arithmetic: Arithmetic
    noise: NoiseSource | None

    def round(self, result: Array) -> Array:
        """A sum, product or quotient of two numbers."""
        return self._disturbed(result, lambda: stored(result, self.arithmetic.unit(self.dtype)))

    def accumulate(self, result: Array) -> Array:
        """One addition to a sum that goes on."""
        return self._disturbed(result, lambda: stored(result, self.arithmetic.accumulator(self.dtype)))

    def function(self, result: Array, through: float = 0.0) -> Array:
        """A transcendental function, perhaps computed by way of a number of the size `through`."""
        return self._disturbed(result, lambda: self.arithmetic.transcendental(self.dtype) * (np.abs(result) + through))

    def dot(self, left: Array, right: Array) -> Array:
        result = left @ right
        return self._disturbed(result, lambda: self._dot_size(left, right, result))

    def sum(self, x: Array, axes: tuple[int, ...]) -> Array:
        result = np.sum(x, axis=axes, keepdims=True)
        count = float(x.size / max(result.size, 1))
        unit = self.arithmetic.accumulator(self.dtype)
        return self._disturbed(
            result,
            lambda: together(
                summed(result, np.sum(np.square(x), axis=axes, keepdims=True), count, unit),
                stored(result, self.arithmetic.unit(self.dtype)),
            ),
        )

    def mean(self, x: Array, axes: tuple[int, ...]) -> Array:
        count = max(math.prod(x.shape[a] for a in axes), 1)
        return self.sum(x / count, axes)

    def _dot_size(self, left: Array, right: Array, result: Array) -> Array:
        squares = np.square(left) @ np.square(right)
        size = summed(result, squares, float(left.shape[-1]), self.arithmetic.accumulator(self.dtype))
        factors = 2 * self.arithmetic.product(self.dtype) * np.sqrt(squares)
        return together(size, factors, stored(result, self.arithmetic.unit(self.dtype)))

    def _disturbed(self, result: Array, amplitude: Callable[[], Array]) -> Array:
        if self.noise is None:
            return result
        return np.asarray(self.noise.disturb(result, amplitude() + self.arithmetic.tiny(self.dtype), self.dtype))


Composite = Callable[[Steps, Any, list[Any], dict[str, Any]], tuple[Array, ...]]
