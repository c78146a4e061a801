"""Numbers in as few characters as possible, for titles."""

from __future__ import annotations

import math
from collections.abc import Sequence

from driftline.core.evidence import Element, Fault, Number

FEWEST_DIGITS = 3
FAR = 0.01  # relative error that a reader sees at once
ORDINARY = 1e4  # numbers up to this size, and down to its inverse, need no exponent


def short(value: Number, digits: int = FEWEST_DIGITS) -> str:
    """Format a number: `NaN`, `-inf`, `True`, `6` for 6.0, `-0.0`, `3.14`; integers in full."""
    if isinstance(value, (bool, int)):
        return str(value)
    if math.isnan(value):
        return "NaN"
    if value == 0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0"
    return f"{value:.{digits}g}"


def short_pair(expected: Number, got: Number) -> tuple[str, str]:
    """Format both numbers with the fewest digits that make them differ; zeros get signs if only these differ."""
    if expected == got == 0:
        return _signed_zero(expected), _signed_zero(got)
    for digits in range(FEWEST_DIGITS, 18):
        pair = short(expected, digits), short(got, digits)
        if pair[0] != pair[1]:
            break
    return pair


def telling_element(worst: Sequence[Element], fault: Fault) -> Element | None:
    """Return the wrong element that is easiest to read: one that shows the fault, is far off, has an ordinary size and
    needs few characters; None without elements."""
    fitting = [one for one in worst if _shows(one, fault)] or list(worst)

    def order(one: Element) -> tuple[bool, bool, tuple[int, int]]:
        return not _is_far_off(one), not _is_of_ordinary_size(one), _length(one)

    return min(fitting, key=order, default=None)


def _shows(one: Element, fault: Fault) -> bool:
    right, came = one.expected, one.got
    if fault is Fault.NAN_LOST:
        return _is_nan(right) and not _is_nan(came)
    if fault is Fault.NAN_MADE:
        return _is_nan(came) and not _is_nan(right)
    if fault in (Fault.INFINITY_LOST, Fault.INFINITY_MADE, Fault.INFINITY_TURNED):
        return math.isinf(right) or math.isinf(came)
    return math.isfinite(right) and math.isfinite(came)


def _is_far_off(one: Element) -> bool:
    """True if a reader sees at once that the number is wrong: by at least a hundredth, in its sign, or by NaN."""
    right, came = float(one.expected), float(one.got)
    if not (math.isfinite(right) and math.isfinite(came)):
        return True
    return abs(right - came) >= FAR * max(abs(right), abs(came))


def _is_of_ordinary_size(one: Element) -> bool:
    sizes = [abs(float(value)) for value in (one.expected, one.got) if math.isfinite(value) and value]
    return all(1 / ORDINARY <= size <= ORDINARY for size in sizes)


def _length(one: Element) -> tuple[int, int]:
    pair = short_pair(one.expected, one.got)
    return max(map(len, pair)), sum(map(len, pair))


def _is_nan(value: Number) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _signed_zero(value: Number) -> str:
    return "-0.0" if math.copysign(1.0, value) < 0 else "0.0"
