"""The severity of a bug: one order for lists, reports and queries."""

from __future__ import annotations

from driftline.core.evidence import Evidence, Fault, InputClass
from driftline.core.verdict import COSTS, Kind

# The worst first: silently wrong on ordinary numbers, then crashes, then wrong on special values, then failures that
# are at least reported.
SEVERITIES = (
    "Wrong results on ordinary values",
    "Crashes",
    "Wrong shape, type or structure",
    "Results that drift",
    "Wrong results on special values",
    "Wrong NaN or infinity",
    "Errors on valid programs",
    "Errors that are missing",
    "No answer in time, or out of memory",
    "Wrong sign of zero",
    "Less precise than the program asks for",
    "Right, but slow or wasteful",
    "Other",
)
BY_KIND = {
    Kind.WRONG_VALUE: 0,
    Kind.OUT_OF_BOUNDS: 0,
    Kind.CRASH: 1,
    Kind.WRONG_SHAPE: 2,
    Kind.WRONG_DTYPE: 2,
    Kind.WRONG_STRUCTURE: 2,
    Kind.WRONG_STATE: 2,
    Kind.WRONG_DRAWS: 2,
    Kind.BIAS: 3,
    Kind.WRONG_NONFINITE: 5,
    Kind.ERROR: 6,
    Kind.MISSING_ERROR: 7,
    Kind.TIMEOUT: 8,
    Kind.OOM: 8,
    Kind.WRONG_ZERO_SIGN: 9,
    Kind.REDUCED_PRECISION: 10,
    **dict.fromkeys(COSTS, 11),
}
ON_SPECIAL_VALUES = 4
_SPECIAL_RESULTS = (Fault.SUBNORMAL, Fault.BEYOND_RANGE)
_SPECIAL = {InputClass.NAN, InputClass.INFINITY, InputClass.SUBNORMAL, InputClass.LARGE}


def severity(kind: str, ordinary: bool) -> int:
    """Return the rank of a failure; 0 is the worst. `ordinary`: the inputs are plain finite numbers."""
    if kind == Kind.WRONG_VALUE and not ordinary:
        return ON_SPECIAL_VALUES
    return BY_KIND.get(kind, len(SEVERITIES) - 1)  # type: ignore[call-overload, no-any-return]


def is_on_ordinary_values(found: Evidence, *, plain_inputs: bool) -> bool:
    """True if a failure shows on plain finite numbers. False if it was seen to disappear without special input values
    (`found.needs`), or if the right result is subnormal or does not fit a narrower type. `plain_inputs`: all inputs are
    plain numbers."""
    return plain_inputs and not _SPECIAL.intersection(found.needs) and found.fault not in _SPECIAL_RESULTS
