"""128-bit floats as FPGen writes them: raw x86 `__float128`, which is little-endian IEEE binary128 of 16 bytes each."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.tensors import Array
from driftline.inputs.symbolic.formats import Format

SIZE = 16
_BIAS, _DIGITS, _LAST = 16383, 112, 0x7FFF


def read_float128(data: bytes, where: str) -> list[Fraction | float]:
    """Read the numbers exactly: as fractions, or as floats for NaN, infinities and signed zeros."""
    if not data or len(data) % SIZE:
        raise DriftlineError(
            f"{where} is not a file of 128-bit floats: it has {len(data)} bytes, and each number takes {SIZE}."
        )
    return [_number(int.from_bytes(data[at : at + SIZE], "little")) for at in range(0, len(data), SIZE)]


def _number(bits: int) -> Fraction | float:
    sign = -1 if bits >> 127 else 1
    exponent, digits = bits >> _DIGITS & _LAST, bits & ((1 << _DIGITS) - 1)
    if exponent == _LAST:
        return math.nan if digits else sign * math.inf
    if not exponent and not digits:
        return sign * 0.0
    whole = digits + (1 << _DIGITS) if exponent else digits
    power = max(exponent, 1) - _BIAS - _DIGITS
    return sign * (Fraction(whole << power) if power >= 0 else Fraction(whole, 1 << -power))


def write_float128(values: Array) -> bytes:
    """Write the values as binary128, which represents every float of 64 bits or less exactly."""
    return b"".join(
        _bits(float(value)).to_bytes(SIZE, "little") for value in np.asarray(values, np.float64).reshape(-1)
    )


def _bits(value: float) -> int:
    sign = 1 << 127 if math.copysign(1.0, value) < 0 else 0
    if math.isnan(value):
        return sign | _LAST << _DIGITS | 1 << _DIGITS - 1
    if math.isinf(value):
        return sign | _LAST << _DIGITS
    if value == 0:
        return sign
    share, power = math.frexp(abs(value))  # share in [1/2, 1): 53 digits at most
    digits = int(math.ldexp(share, 53)) << _DIGITS + 1 - 53
    return sign | power - 1 + _BIAS << _DIGITS | digits - (1 << _DIGITS)


def rounded(value: Fraction | float, form: Format) -> float:
    """Round to the nearest float of a format, ties to even, in a single rounding. Going through float64 would round
    twice."""
    if isinstance(value, float):
        return value
    sign = -1.0 if value < 0 else 1.0
    try:
        near = float(value)
    except OverflowError:
        return sign * math.inf
    if form.name == "float64" or math.isinf(near):
        return near
    with np.errstate(all="ignore"):
        first = float(form.round(np.asarray(near)))
    if math.isinf(first):
        step = Fraction(form.largest) - Fraction(float(form.value_of(np.asarray(form.largest_ordinal - 1))))
        return first if abs(value) >= Fraction(form.largest) + step / 2 else math.copysign(form.largest, first)
    ordinal = int(form.ordinal_of(np.asarray(first)))
    candidates = [ordinal + step for step in (-1, 0, 1) if abs(ordinal + step) <= form.largest_ordinal]
    floats = [(abs(Fraction(float(form.value_of(np.asarray(one)))) - value), one % 2, one) for one in candidates]
    nearest = float(form.value_of(np.asarray(min(floats)[2])))
    return nearest or sign * 0.0
