"""Measure how two tensors differ in common metrics. Large tensors are read block by block, without a whole copy.

This module describes differences; `rule.py` decides whether a difference is a bug.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.tensors import Array, is_float
from driftline.programs.live import to_array

BLOCK = 1 << 18  # elements compared at a time


@dataclass(frozen=True)
class TensorMetrics:
    """The measured difference of two tensors. Errors cover only the elements that are finite on both sides."""

    dtype: str
    shape: tuple[int, ...]
    size: int
    equal: bool  # to the last bit, NaN equal to NaN
    max_abs: float
    mean_abs: float
    max_rel: float
    mean_rel: float
    rmse: float
    max_ulp: float
    mismatched: int  # elements beyond rtol and atol; if both are 0, elements that differ
    worst: tuple[int, ...] | None  # where the largest absolute error is
    nan: tuple[int, int]  # count in the first tensor, in the second
    inf: tuple[int, int]
    nonfinite_mismatched: int  # NaN or Inf on one side only, or infinities of opposite sign

    @property
    def mismatch_share(self) -> float:
        """The fraction of elements that mismatch."""
        return self.mismatched / self.size if self.size else 0.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "mismatch_share": self.mismatch_share}

    def __str__(self) -> str:
        if self.equal:
            return f"equal: {self.size} elements of {self.dtype}"
        place = f" at {self.worst}" if self.worst is not None else ""
        return (
            f"{self.mismatched} of {self.size} elements differ ({100 * self.mismatch_share:.3g} %);"
            f" greatest absolute difference {self.max_abs:.6g}{place}, relative {self.max_rel:.6g},"
            f" {self.max_ulp:.6g} ulp; rmse {self.rmse:.6g}; {self.nonfinite_mismatched} differ in NaN or Inf"
        )


def compare_tensors(
    actual: Any, expected: Any, *, rtol: float = 0.0, atol: float = 0.0, symmetric: bool = False
) -> TensorMetrics:
    """Compare two tensors of one dtype and shape (numpy, torch, TensorFlow or JAX) and return their `TensorMetrics`.

    Tensors on a GPU, or of a type that numpy does not know, are converted block by block. Relative errors are relative
    to `expected`; with `symmetric`, to the larger of the two numbers.
    """
    actual, expected = (value.detach() if hasattr(value, "detach") else value for value in (actual, expected))
    (a, a_shape), (b, b_shape) = _kind(actual), _kind(expected)
    if a != b or a_shape != b_shape:
        raise DriftlineError(
            f"compare_tensors needs two tensors of one dtype and shape, not {a}{list(a_shape)} and {b}{list(b_shape)}."
        )
    total = _Total(rtol, atol, symmetric)
    for block in _blocks(a_shape, BLOCK):
        total.add(_part(actual, block), _part(expected, block), block)
    return total.result(a.name, a_shape)


def _kind(value: Any) -> tuple[Any, tuple[int, ...]]:
    """Return the numpy dtype and the shape of a tensor."""
    shape = tuple(int(size) for size in value.shape)
    small = value[tuple(slice(0, 0) for _ in shape)] if shape and math.prod(shape) > BLOCK else value
    return to_array(small).dtype, shape


def _part(value: Any, block: tuple[slice, ...]) -> Array:
    return to_array(value[block] if block else value)


class _Total:
    """Accumulates the metrics over blocks."""

    def __init__(self, rtol: float, atol: float, symmetric: bool) -> None:
        self._rtol, self._atol, self._symmetric = rtol, atol, symmetric
        self._finite = self._mismatched = self._nonfinite = 0
        self._sum_abs = self._sum_rel = self._sum_squares = 0.0
        self._max_abs, self._max_rel, self._max_ulp = 0.0, 0.0, 0.0
        self._worst: tuple[int, ...] | None = None
        self._nan, self._inf = [0, 0], [0, 0]
        self._equal = True

    def add(self, a: Array, b: Array, block: tuple[slice, ...]) -> None:
        """Add one block of both tensors to the totals; `block` gives its position."""
        if a.dtype.kind in "biu" and np.array_equal(a, b):
            self._finite += a.size
            return
        with np.errstate(all="ignore"):
            if not (is_float(a.dtype.name) or a.dtype.kind == "c"):
                self._add_exact(a, b, block)
            else:
                self._add_floats(a, b, block)

    def _add_exact(self, a: Array, b: Array, block: tuple[slice, ...]) -> None:
        different = a != b
        if a.dtype.kind in "iu":  # above 2^53 float64 is not exact for integers: subtract as integers
            larger, smaller = np.maximum(a, b), np.minimum(a, b)
            bits = np.dtype(f"u{a.dtype.itemsize}")
            error = (larger.astype(bits) - smaller.astype(bits)).astype(np.float64)
        else:
            error = different.astype(np.float64)
        self._totals(error, self._size(a.astype(np.float64), b.astype(np.float64)), different, block)
        self._max_ulp = max(self._max_ulp, float(error.max(initial=0.0)))

    def _add_floats(self, a: Array, b: Array, block: tuple[slice, ...]) -> None:
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        x, y = a.astype(wide), b.astype(wide)
        for side, values in enumerate((x, y)):
            self._nan[side] += int(np.isnan(values).sum())
            self._inf[side] += int(np.isinf(values).sum())
        finite = np.isfinite(x) & np.isfinite(y)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        self._nonfinite += int((~finite & ~same).sum())
        error = np.where(finite, np.abs(x - y), 0.0)
        size = np.where(finite, self._size(x, y), 0.0)
        beyond = np.where(finite, error > self._atol + self._rtol * size, ~same)
        self._totals(error, size, beyond, block, int(finite.sum()), bool(same.all()))
        if a.dtype.kind != "c":
            steps = np.where(finite, _ordinals(a) - _ordinals(b), 0.0)
            self._max_ulp = max(self._max_ulp, float(np.abs(steps).max(initial=0.0)))

    def _size(self, a: Array, b: Array) -> Array:
        """Return the magnitude that errors are relative to."""
        size: Array = np.maximum(np.abs(a), np.abs(b)) if self._symmetric else np.abs(b)
        return size

    def _totals(
        self, error: Array, size: Array, beyond: Array, block: tuple[slice, ...], finite: int | None = None,
        equal: bool | None = None,
    ) -> None:  # fmt: skip
        self._finite += error.size if finite is None else finite
        self._equal &= not beyond.any() if equal is None else equal
        self._mismatched += int(beyond.sum())
        relative = np.where(error > 0, error / np.where(size > 0, size, np.nan), 0.0)
        relative = np.where(np.isnan(relative), np.inf, relative)
        self._sum_abs += float(error.sum())
        self._sum_squares += float(np.square(error).sum())
        self._sum_rel += float(relative[np.isfinite(relative)].sum())
        self._max_rel = max(self._max_rel, float(relative.max(initial=0.0)))
        largest = float(error.max(initial=0.0))
        if largest > self._max_abs:
            self._max_abs = largest
            inside = np.unravel_index(int(np.argmax(error)), error.shape)
            self._worst = tuple(int(s.start + i) for s, i in zip(block, inside, strict=True))

    def result(self, dtype: str, shape: tuple[int, ...]) -> TensorMetrics:
        count = max(self._finite, 1)
        return TensorMetrics(
            dtype=dtype,
            shape=shape,
            size=math.prod(shape),
            equal=self._equal,
            max_abs=self._max_abs,
            mean_abs=self._sum_abs / count,
            max_rel=self._max_rel,
            mean_rel=self._sum_rel / count,
            rmse=math.sqrt(self._sum_squares / count),
            max_ulp=self._max_ulp,
            mismatched=self._mismatched,
            worst=self._worst,
            nan=(self._nan[0], self._nan[1]),
            inf=(self._inf[0], self._inf[1]),
            nonfinite_mismatched=self._nonfinite,
        )


def _ordinals(values: Array) -> Array:
    """Return the position of each float in the ordered list of all floats, so that neighbours differ by one."""
    width = values.dtype.itemsize
    bits = np.ascontiguousarray(values).view(f"i{width}").astype(np.int64)
    lowest = np.iinfo(np.dtype(f"i{width}")).min
    return np.where(bits < 0, lowest - bits, bits).astype(np.float64)


def _blocks(shape: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Cut an index space into boxes of at most `limit` elements."""
    if math.prod(shape) <= limit or not shape:
        yield tuple(slice(0, size) for size in shape)
        return
    inner = math.prod(shape[1:])
    if inner > limit:
        for row in range(shape[0]):
            for rest in _blocks(shape[1:], limit):
                yield (slice(row, row + 1), *rest)
        return
    step = max(limit // max(inner, 1), 1)
    for start in range(0, shape[0], step):
        yield (slice(start, min(start + step, shape[0])), *(slice(0, size) for size in shape[1:]))
