"""Which arithmetic a target is held to: the rounding units that a legal implementation may use.

The default is IEEE arithmetic with float32 accumulation for the small types. What a target *declares* beyond that
(TF32 products, half accumulation, a fast exponential, flush-to-zero, re-quantisation) is a policy: it changes the
units, it is never a bigger tolerance.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.tensors import Array, Arrays
from driftline.core.text import did_you_mean

# unit roundoff, largest finite number, smallest normal and smallest subnormal number of each format
_FORMATS = {
    "float64": (2.0**-53, 1.7976931348623157e308, 2.0**-1022, 2.0**-1074),
    "float32": (2.0**-24, 3.4028234663852886e38, 2.0**-126, 2.0**-149),
    "float16": (2.0**-11, 65504.0, 2.0**-14, 2.0**-24),
    "bfloat16": (2.0**-8, 3.3895313892515355e38, 2.0**-126, 2.0**-133),
    "float8_e4m3fn": (2.0**-4, 448.0, 2.0**-6, 2.0**-9),
    "float8_e5m2": (2.0**-3, 57344.0, 2.0**-14, 2.0**-16),
}
_TF32_UNIT = 2.0**-11
_PARTS = {"complex64": "float32", "complex128": "float64"}


@dataclass(frozen=True)
class Arithmetic:
    """The rounding units of one target."""

    tf32: bool = False  # products of float32 matrices and convolutions have 10-bit fractions
    half_accumulation: bool = False  # float16 and bfloat16 sums are kept in the type itself
    fast_exp: bool = False  # transcendental functions are off by some units
    flush_to_zero: bool = False  # subnormal numbers may become zero
    double_as_single: bool = False  # float64 is computed in float32
    requantise: int = 0  # quantised values may be off by this many quanta
    storage: str = ""  # constants, or all values, are kept in fewer bits: HALF_WEIGHTS, BYTE_VALUES

    def unit(self, dtype: str) -> float:
        """Return the unit roundoff of a result stored as `dtype`."""
        return _FORMATS[self.computed(dtype)][0]

    def computed(self, dtype: str) -> str:
        """Return the float type in which the values (or real and imaginary parts) of `dtype` are computed."""
        part = _PARTS.get(dtype, dtype)
        return "float32" if self.double_as_single and part == "float64" else part

    def accumulating(self, dtype: str) -> str:
        """Return the float type in which partial sums of `dtype` are kept."""
        part = self.computed(dtype)
        return part if part == "float64" or self.half_accumulation else "float32"

    def accumulator(self, dtype: str) -> float:
        """Return the unit roundoff of each addition inside a sum of `dtype`."""
        return self.unit(self.accumulating(dtype))

    def largest_sum(self, dtype: str) -> float:
        """Return the largest number that a partial sum of `dtype` can hold."""
        return self.largest(self.accumulating(dtype))

    def product(self, dtype: str) -> float:
        """Return the unit roundoff applied to the factors of a matrix product or convolution: nonzero only under
        TF32."""
        return _TF32_UNIT if self.tf32 and _PARTS.get(dtype, dtype) == "float32" else 0.0

    def transcendental(self, dtype: str) -> float:
        """Return the relative error allowed for exp, log, tanh and similar functions. Library functions are off by up
        to two units in the types they compute in; results in smaller types are computed in float32 and rounded once."""
        factor = 2.0 if _PARTS.get(dtype, dtype) in ("float32", "float64") else 1.0
        return self.unit(dtype) * factor * (8.0 if self.fast_exp else 1.0)

    @property
    def with_exact_roots(self) -> Arithmetic:
        """The same arithmetic without `fast_exp`: for square roots and powers, which a fast exponential does not
        affect."""
        return replace(self, fast_exp=False) if self.fast_exp else self

    def tiny(self, dtype: str) -> float:
        """Return the absolute error that is always legal: the smallest subnormal number, or the smallest normal number
        when subnormal numbers are flushed to zero."""
        part = self.computed(dtype)
        return _FORMATS[part][2] if self.flush_to_zero else _FORMATS[part][3]

    def smallest_normal(self, dtype: str) -> float:
        """Return the smallest normal number of the type in which `dtype` is computed."""
        return _FORMATS[self.computed(dtype)][2]

    def underflow(self, dtype: str) -> float:
        """Return the magnitude below which exp, log, tanh and similar functions may return zero: many implementations
        stop where the result is a subnormal number of the type that they compute in, which for smaller types is
        float32."""
        return _FORMATS["float64" if self.computed(dtype) == "float64" else "float32"][2]

    def largest(self, dtype: str) -> float:
        """Return the largest finite number of `dtype`."""
        return _FORMATS[_PARTS.get(dtype, dtype)][1]  # declared narrowing does not reduce the range


HALF_WEIGHTS = "half-weights"
BYTE_VALUES = "byte-values"
IEEE = Arithmetic()
POLICIES = {
    "tf32": "products of float32 matrices have 10-bit fractions",
    "half-accumulation": "float16 and bfloat16 sums are kept in the type itself",
    "fast-exp": "transcendental functions are off by some units",
    "flush-to-zero": "subnormal numbers may become zero",
    "double-as-single": "float64 is computed in float32",
    "requantise": "quantised values may come out one quantum off",
    "requantise-2": "quantised values may come out two quanta off",
}
# Formats of a conversion that the user requested. They are no policies: they do not explain failures, and the user need
# not accept them (see `storage.py`).
STORAGES = (HALF_WEIGHTS, BYTE_VALUES)
_CHANGES: dict[str, dict[str, Any]] = {
    "requantise": {"requantise": 1},
    "requantise-2": {"requantise": 2},
    **{name: {"storage": name} for name in STORAGES},
}


_WIDE = {"float32", "float64", "complex64", "complex128"}
_DOUBLE = {"float64", "complex128"}


def effective(names: str, uses: Collection[str]) -> str:
    """Return the policy names in `names` (joined with '+') without those that cannot affect a program with the types
    `uses`."""
    floats = {name for name in uses if name.startswith(("float", "bfloat", "complex"))}
    idle = {"half-accumulation": floats <= _WIDE, "double-as-single": floats.isdisjoint(_DOUBLE)}
    return "+".join(name for name in names.split("+") if name and not idle.get(name, False))


def has_subnormals(arrays: Arrays) -> bool:
    """True if any float in the arrays is subnormal, that is, nonzero but below the smallest normal number of its
    type."""
    return any(_subnormal(part).any() for array in arrays.values() for part in _real_parts(array))


def with_subnormals_as_zero(arrays: Arrays) -> Arrays:
    """Return a copy of the arrays with each subnormal number replaced by a zero of the same sign."""
    flushed = {name: array.copy() for name, array in arrays.items()}
    for array in flushed.values():
        for part in _real_parts(array):
            part[_subnormal(part)] *= 0
    return flushed


def _real_parts(array: Array) -> tuple[Array, ...]:
    """Return views of the array's floats (real and imaginary part if complex), or an empty tuple for other types."""
    if _PARTS.get(array.dtype.name, array.dtype.name) not in _FORMATS:
        return ()
    return (array.real, array.imag) if array.dtype.kind == "c" else (array,)


def _subnormal(part: Array) -> Array:
    size = np.abs(part.astype(np.float64))
    return (size > 0) & (size < _FORMATS[part.dtype.name][2])


def declared(names: str) -> Arithmetic:
    """Return the arithmetic for policy names joined with '+'. Raises `DriftlineError` for an unknown name."""
    arithmetic = IEEE
    for name in sorted(filter(None, names.split("+"))):  # of two policies for the same number, the wider comes last
        if name not in POLICIES and name not in STORAGES:
            raise DriftlineError(
                f"There is no arithmetic {name!r}.{did_you_mean(name, POLICIES)} Known: {', '.join(POLICIES)}."
            )
        arithmetic = replace(arithmetic, **_CHANGES.get(name, {name.replace("-", "_"): True}))
    return arithmetic
