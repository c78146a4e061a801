"""What class of evidence a failure rests on: a wrong finite number, a lost NaN, a flushed subnormal, and so on.

A variation of a failing program whose evidence is of another class most likely shows another bug.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from driftline.core.verdict import Kind

_NEGATED = 1e-3  # how close, relatively, a number must come to the expected one with the other sign
_SMALLEST_NORMAL = {
    "float64": 2.0**-1022, "float32": 2.0**-126, "bfloat16": 2.0**-126, "float16": 2.0**-14,
    "float8_e4m3fn": 2.0**-6, "float8_e5m2": 2.0**-14,
}  # fmt: skip
_OF_NUMBERS = (Kind.WRONG_VALUE, Kind.BIAS, Kind.WRONG_NONFINITE)


class Evidence(StrEnum):
    """The class of what was seen at the element that the verdict names."""

    FINITE = "finite-value"  # a wrong number where a number is expected
    SIGN = "sign"  # the right number with the wrong sign
    SUBNORMAL = "subnormal"  # both numbers are subnormal, or zero
    CHOICE = "choice"  # an invalid choice among equals, such as the index of a maximum
    NAN_LOST = "nan-lost"
    NAN_MADE = "nan-made"
    INFINITY = "infinity"  # an infinity on one side, or another one than expected
    ILL_CONDITIONED = "ill-conditioned"  # most other elements move too much to be judged at all
    OTHER = "other"  # not seen in numbers: an error, a dtype, a shape

    def stands_for(self, other: Evidence) -> bool:
        """Is the other most likely the same bug? What is seen more clearly in a smaller program is."""
        return other is self or other in _CLEARER.get(self, ())


_CLEARER = {
    Evidence.FINITE: (Evidence.SIGN,),
    Evidence.CHOICE: (Evidence.FINITE, Evidence.SIGN),  # the numbers among which was chosen
    Evidence.ILL_CONDITIONED: (Evidence.FINITE, Evidence.SIGN),
}


def evidence_class(kind: str | None, evidence: Mapping[str, Any]) -> Evidence:
    """The class of a failure, from the kind and the evidence of its verdict."""
    if kind not in _OF_NUMBERS:
        return Evidence.OTHER
    if evidence.get("choice"):
        return Evidence.CHOICE
    expected, got = _number(evidence.get("expected")), _number(evidence.get("got"))
    if expected is None or got is None:
        return Evidence.FINITE
    if math.isnan(expected) or math.isnan(got):
        return Evidence.NAN_LOST if math.isnan(expected) else Evidence.NAN_MADE
    if math.isinf(expected) or math.isinf(got):
        return Evidence.INFINITY
    if max(abs(expected), abs(got)) < _SMALLEST_NORMAL.get(str(evidence.get("dtype")), 0.0):
        return Evidence.SUBNORMAL
    if 2 * int(evidence.get("unjudged") or 0) > int(evidence.get("size") or 0) > 0:
        return Evidence.ILL_CONDITIONED
    if expected and abs(got + expected) <= _NEGATED * abs(expected):
        return Evidence.SIGN
    return Evidence.FINITE


def _number(told: Any) -> float | None:
    try:
        return float(told)
    except (TypeError, ValueError):  # a boolean, a complex number, or nothing
        return None
