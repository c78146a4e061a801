"""Floating-point formats: rounding to them, and the order of their floats.

Values are held in a *carrier*: float64 for float64, float32 for the others. Rounding after each operation then gives
the result of the format itself, bit for bit: the carrier has more than twice the bits of float16 and bfloat16, so
rounding twice gives the same result for + - * / and sqrt.

The *ordinal* of a float is its rank in the order of all finite floats, with 0 for zero. One step is one ULP; half of an
interval of ordinals contains half of its floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.tensors import Array, numpy_dtype
from driftline.core.text import did_you_mean


@dataclass(frozen=True)
class Format:
    """A binary format. `significand` counts the hidden bit, as SMT-LIB does."""

    name: str
    exponent: int
    significand: int

    def __str__(self) -> str:
        return self.name

    @property
    def bits(self) -> int:
        return self.exponent + self.significand

    @property
    def carrier(self) -> type[np.floating]:
        return np.float64 if self.name == "float64" else np.float32

    @cached_property
    def dtype(self) -> np.dtype:
        return numpy_dtype(self.name)

    @cached_property
    def largest(self) -> float:
        return float(self.value_of(np.asarray(self.largest_ordinal)))

    @property
    def largest_ordinal(self) -> int:
        return (((1 << self.exponent) - 1) << (self.significand - 1)) - 1

    @cached_property
    def smallest_normal(self) -> float:
        return float(2.0 ** (2 - (1 << (self.exponent - 1))))

    @property
    def epsilon(self) -> float:
        return float(2.0 ** (1 - self.significand))

    def round(self, values: Array) -> Array:
        """Round to the nearest float of the format. The result has the carrier's dtype."""
        with np.errstate(all="ignore"):
            if self.name in ("float64", "float32"):
                return np.asarray(values, self.carrier)
            return np.asarray(values).astype(self.dtype).astype(np.float32)

    def ordinal_of(self, values: Array) -> Array:
        """Return the ordinals of finite floats of the format. Both zeros have the ordinal 0."""
        values = np.asarray(values)
        rounded = np.ascontiguousarray(values.astype(self.dtype))  # of one number: an array of one
        magnitude = (rounded.view(f"u{self.bits // 8}") & ((1 << (self.bits - 1)) - 1)).astype(np.int64)
        magnitude = magnitude.reshape(values.shape)
        return np.where(values < 0, -magnitude, magnitude)

    def value_of(self, ordinals: Array) -> Array:
        """Return the floats with these ordinals, in the carrier. Ordinals beyond the largest float give the largest
        float."""
        ordinals = np.clip(np.asarray(ordinals, np.int64), -self.largest_ordinal, self.largest_ordinal)
        magnitude = np.ascontiguousarray(np.abs(ordinals).astype(f"u{self.bits // 8}")).view(self.dtype)
        values = magnitude.astype(self.carrier).reshape(ordinals.shape)
        return np.where(ordinals < 0, -values, values)

    def bits_of(self, value: float) -> int:
        """Return the bit pattern of the nearest float."""
        return int(np.asarray([value], np.float64).astype(self.dtype).view(f"u{self.bits // 8}")[0])

    def of_bits(self, pattern: int) -> float:
        return float(np.asarray([pattern], f"u{self.bits // 8}").view(self.dtype)[0])

    def below(self, values: Array) -> Array:
        """Return the next smaller float for each value."""
        return self._step(values, -1)

    def above(self, values: Array) -> Array:
        return self._step(values, 1)

    def _step(self, values: Array, by: int) -> Array:
        values = np.asarray(values)
        end = self.carrier(np.inf * by)
        finite = np.isfinite(values)
        ordinal = self.ordinal_of(np.where(finite, values, 0)) + by
        stepped = np.where(np.abs(ordinal) > self.largest_ordinal, end, self.value_of(ordinal))
        return np.where(finite, stepped, np.where(values == -end, self.carrier(-by * self.largest), values))


FLOAT64 = Format("float64", 11, 53)
FLOAT32 = Format("float32", 8, 24)
FLOAT16 = Format("float16", 5, 11)
BFLOAT16 = Format("bfloat16", 8, 8)
FORMATS = {form.name: form for form in (FLOAT64, FLOAT32, FLOAT16, BFLOAT16)}
_SHORT = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "double": "float64", "float": "float32", "half": "float16",
}  # fmt: skip


def parse_format(text: str) -> Format:
    """Parse the name of a format: `float16`, `f16` or `half`."""
    name = _SHORT.get(text, text)
    if name not in FORMATS:
        raise DriftlineError(f"--dtype {text}: give one of {', '.join(FORMATS)}.{did_you_mean(text, FORMATS)}")
    return FORMATS[name]


def wider(form: Format) -> Format:
    """Return the format that kernels accumulate in: float32 for float16 and bfloat16, otherwise the format itself."""
    return FLOAT32 if form in (FLOAT16, BFLOAT16) else form
