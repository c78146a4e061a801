"""Decide whether a cause explains a failure: every condition of the cause must hold for the measured facts.

A condition on a fact that was not measured does not hold. Conditions that the file leaves out are not checked. In
particular:

- the compiler is the one that is blamed, exactly; the release is not one in which the cause is fixed;
- *every* operator of the failing program is one that the cause names: a larger program has to be reduced first;
- *every* fault among the worst elements is one that the cause names: a lost NaN next to a wrong number is not
  explained by a cause of lost NaN;
- the actual (`got`) and the expected value of *every* stored element are among the numbers that the cause names;
- every question of the cause (see `Question`) was tried on the case at hand, and it passed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from driftline.causes.cause import Cause
from driftline.causes.names import plain_names
from driftline.causes.sighting import GLUE, Sighting
from driftline.core.evidence import Element, Evidence, Number

SPACINGS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}  # binary digits of a number
INTEGERS = {
    **{f"int{bits}": range(-(1 << (bits - 1)), 1 << (bits - 1)) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": range(1 << bits) for bits in (8, 16, 32, 64)},
}
_ROUNDINGS = 4  # steps: several operations, each of which rounds
_SAME = 1e-6  # relative: numbers in files are written with fewer digits


def explains(cause: Cause, seen: Sighting) -> bool:
    """True if every condition of the cause holds, including its experiments."""
    return not mismatch(cause, seen)


def may_explain(cause: Cause, seen: Sighting) -> bool:
    """True if every condition holds except those that were not tested on the case yet."""
    return not _measured(cause, seen) and not any(seen.passes(one) is False for one in cause.questions)


def mismatch(cause: Cause, seen: Sighting) -> str:
    """Return the first condition that does not hold, in words; empty if the cause explains the failure."""
    if found := _measured(cause, seen):
        return found
    for question in cause.questions:
        answer = seen.passes(question)
        if answer is not True:
            return f"it {question}: {'it does not' if answer is False else 'not tried'}"
    return ""


def _measured(cause: Cause, seen: Sighting) -> str:
    return _where(cause, seen) or _what(cause, seen) or _evidence(cause, seen)


def _where(cause: Cause, seen: Sighting) -> str:
    if cause.compiler != seen.backend:
        return f"compiler {cause.compiler}: it is {seen.backend}"
    if cause.fixed and not is_before(seen.version, cause.fixed):
        return f"fixed in {cause.fixed}: it is {seen.version or 'an unknown release'}"
    if cause.machines and seen.machine not in cause.machines:
        return f"machines {', '.join(cause.machines)}: it is {seen.machine or 'unknown'}"
    for key, value in cause.options:
        if seen.options.get(key) != value:
            return f"option {key}={value}: the target has {seen.options.get(key) or 'none'}"
    return ""


def _what(cause: Cause, seen: Sighting) -> str:
    if seen.kind not in cause.kinds:
        return f"kinds {', '.join(cause.kinds)}: it is {seen.kind}"
    if cause.stages and seen.stage not in cause.stages:
        return f"stages {', '.join(cause.stages)}: it is {seen.stage}"
    if cause.operators and not _covered(cause, seen.operators):
        return f"operators {', '.join(cause.spelled)}: it has {', '.join(sorted(seen.operators)) or 'none listed'}"
    if cause.dtypes and not seen.dtypes.intersection(cause.dtypes):
        return f"dtypes {', '.join(cause.dtypes)}: it has {', '.join(sorted(seen.dtypes)) or 'none'}"
    return ""


def _covered(cause: Cause, operators: frozenset[str]) -> bool:
    """True if every operator of the program is in some set of the cause's operators that occurs in the program as a
    whole.
    """
    named, seen = [plain_names(together) for together in cause.operators], plain_names(operators)
    at_work = [together for together in named if together <= seen]
    return bool(at_work) and seen - GLUE <= frozenset().union(*at_work)


def _evidence(cause: Cause, seen: Sighting) -> str:
    """Return the first condition on the evidence that does not hold, or an empty string."""
    found = seen.evidence
    return _numbers_differ(cause, found) or _circumstances_differ(cause, seen) or _words_differ(cause, found)


def _numbers_differ(cause: Cause, found: Evidence) -> str:
    """Return the first condition on how the worst elements are wrong that does not hold, or an empty string."""
    if cause.faults and (not found.faults or not set(found.faults) <= set(cause.faults)):
        return f"faults {', '.join(cause.faults)}: it has {', '.join(found.faults) or 'none'}"
    if cause.narrower and not _stays_in(found, cause.narrower):
        return f"narrower {cause.narrower}: it is {found.narrower or 'nothing'}"
    if cause.rounded_to and not _all(found, lambda one: _is_rounding(one, cause.rounded_to)):
        return f"rounded_to {cause.rounded_to}: what came is not what is expected in that type"
    if cause.off_by and not _all(found, lambda one: cause.off_by[0] <= abs(one.got - one.expected) <= cause.off_by[1]):
        return f"off_by {cause.off_by[0]} to {cause.off_by[1]}: an element is off by less, or by more"
    return ""


def _circumstances_differ(cause: Cause, seen: Sighting) -> str:
    """Return the first condition on calls, settings and regions that does not hold, or an empty string."""
    found = seen.evidence
    if cause.empty and not seen.empty:
        return "empty: no input is, as far as is known"
    if cause.later_call and not seen.later_call:
        return "later_call: it fails in its first call, as far as is known"
    if not seen.settings.issuperset(cause.settings):
        return f"settings {', '.join(cause.settings)}: it has {', '.join(sorted(seen.settings)) or 'none listed'}"
    if cause.regions and not set(found.regions) & set(cause.regions):
        return f"regions {', '.join(cause.regions)}: it has {', '.join(found.regions) or 'none'}"
    return ""


def _words_differ(cause: Cause, found: Evidence) -> str:
    """Return the first condition on the numbers, the policies and the error message that does not hold, or an empty
    string.
    """
    for name, wanted in (("got", cause.got), ("expected", cause.expected)):
        came: list[Number] = [getattr(one, name) for one in found.worst]
        if wanted and not (came and all(any(_same(one, other) for other in wanted) for one in came)):
            return f"{name} {', '.join(map(str, wanted))}: it has {', '.join(map(str, came)) or 'none'}"
    if cause.policies and (not found.policies or not set(found.policies) <= set(cause.policies)):
        return f"policies {', '.join(cause.policies)}: it has {', '.join(found.policies) or 'none'}"
    for name, text in (("exception", cause.exception), ("signal", cause.signal)):
        if text and getattr(found, name) != text:
            return f"{name} {text}: it is {getattr(found, name) or 'none'}"
    if cause.message and not re.search(cause.message, found.message):
        return f"message {cause.message!r}: it is {found.message!r}"
    return ""


def _all(found: Evidence, holds: Callable[[Element], bool]) -> bool:
    """True if there are worst elements and the condition holds for each."""
    return bool(found.worst) and all(map(holds, found.worst))


def _stays_in(found: Evidence, dtype: str) -> bool:
    """True if all actual values fit the narrower type and the expected ones do not. The evidence names the type only if
    values were clamped or wrapped; `abs(wrap(x))` is neither.
    """
    if found.narrower:
        return found.narrower == dtype
    limits = INTEGERS.get(dtype, range(0))
    return _all(found, lambda one: _is_in(limits, one.got) and not _is_in(limits, one.expected))


def _is_in(limits: range, number: Number) -> bool:
    return math.isfinite(number) and number == int(number) and int(number) in limits


def _is_rounding(one: Element, dtype: str) -> bool:
    """True if the actual integer is representable in this float type, and the expected one is not but lies close by."""
    if not all(isinstance(number, int) and not isinstance(number, bool) for number in (one.expected, one.got)):
        return False
    digits = SPACINGS[dtype]
    step = 1 << max(int(one.expected).bit_length() - digits, 0)
    return one.expected % step != 0 and one.got % step == 0 and abs(one.got - one.expected) <= _ROUNDINGS * step


def _same(one: Number, other: Number) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other or math.isclose(one, other, rel_tol=_SAME)


def is_before(version: str, fixed: str) -> bool:
    """True if a release is older than the one with the fix; False if they cannot be compared."""
    mine, theirs = _numbers(version), _numbers(fixed)
    return bool(mine and theirs) and mine < theirs


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version without trailing zeros: 2.13.0+cpu -> (2, 13)."""
    found = [int(part) for part in re.findall(r"\d+", re.match(r"[\d.]*", version).group())]  # type: ignore[union-attr]
    while found and not found[-1]:
        found.pop()
    return tuple(found)
