"""Determines the fault of one wrong element from the expected number, the actual number and their type."""

from __future__ import annotations

import math
from collections.abc import Iterable

from driftline.core.evidence import Element, Fault
from driftline.core.tensors import is_float

_OF_ORDINARY_NUMBERS = {Fault.NUMBER, Fault.SIGN, Fault.BEYOND_RANGE}
NEGATED = 1e-3  # relative distance within which a number counts as the expected one with the opposite sign
_SMALLEST_NORMAL = {
    "float64": 2.0**-1022, "float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-14,
    "float8_e4m3fn": 2.0**-6, "float8_e5m2": 2.0**-14,
}  # fmt: skip
_LARGEST = {"float16": 65504.0, "float32": 3.4028234663852886e38}
_NARROWER = {"float64": ("float32", "float16"), "float32": ("float16",), "bfloat16": ("float16",)}
_NARROWER_INTEGERS = {"int64": ("int32", "int16", "int8"), "int32": ("int16", "int8"), "int16": ("int8",)}


def faults_of(found: Iterable[Element], dtype: str) -> tuple[Fault, ...]:
    """Return the faults of elements, in order. SUBNORMAL comes last if other numbers are wrong too, since it is
    incidental then."""
    each = dict.fromkeys(fault_of(one, dtype) for one in found)
    if not each.keys() & _OF_ORDINARY_NUMBERS:
        return tuple(each)
    return tuple(sorted(each, key=lambda fault: fault is Fault.SUBNORMAL))


def fault_of(one: Element, dtype: str) -> Fault:
    """Return the fault of one element."""
    expected, got = one.expected, one.got
    if isinstance(expected, float) or isinstance(got, float):
        odd = _nonfinite_fault(float(expected), float(got))
        if odd:
            return odd
    if max(abs(expected), abs(got)) < _SMALLEST_NORMAL.get(dtype, 0.0):
        return Fault.SUBNORMAL
    if narrower_than(one, dtype):
        return Fault.BEYOND_RANGE
    if expected and not isinstance(expected, bool) and abs(got + expected) <= NEGATED * abs(expected):
        return Fault.SIGN
    return Fault.NUMBER


def _nonfinite_fault(expected: float, got: float) -> Fault | None:
    if math.isnan(expected) or math.isnan(got):
        return Fault.NAN_LOST if math.isnan(expected) else Fault.NAN_MADE
    if math.isinf(expected):
        return Fault.INFINITY_TURNED if math.isinf(got) else Fault.INFINITY_LOST
    return Fault.INFINITY_MADE if math.isinf(got) else None


def narrower_than(one: Element, dtype: str) -> str:
    """Return the narrower type whose range contains the actual number but not the expected one, or an empty string:
    integers that wrapped or were clamped, floats that were clamped to the largest number or became infinite."""
    expected, got = one.expected, one.got
    if is_float(dtype):
        for name in _NARROWER.get(dtype, ()):
            largest = _LARGEST[name]
            clamped = math.isclose(abs(got), largest, rel_tol=1e-6) or (math.isinf(got) and math.isfinite(expected))
            if abs(expected) > largest and clamped and not math.isnan(expected):
                return name
        return ""
    if isinstance(expected, bool) or not isinstance(expected, int) or not isinstance(got, int):
        return ""
    for name in _NARROWER_INTEGERS.get(dtype.removeprefix("u"), ()):
        bits = int(name[3:])
        low, high = (0, (1 << bits) - 1) if dtype.startswith("u") else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        if not low <= expected <= high and low <= got <= high:
            wrapped = (expected - low) % (1 << bits) + low
            if got in (wrapped, low, high):
                return ("u" if dtype.startswith("u") else "") + name
    return ""
