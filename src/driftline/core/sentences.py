"""Makes the sentence about a failure from its evidence: the same in the terminal, reports, issues and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence

from driftline.core.evidence import Element, Evidence, Fault, Number
from driftline.core.execution import Failure
from driftline.core.text import normalise_message, told_apart
from driftline.core.verdict import Judgement, Kind, Verdict

_OF_INPUTS = {"grad": "the gradient of", "mutated": "the change of"}
_DOING = {"CONVERT": "converting", "SCHEDULE": "scheduling", "COMPILE": "compiling", "RUN": "running"}


def called(name: str) -> str:
    """Return the name of an output as sentences use it; an output without a name is called by its position."""
    what, _, given = name.partition(":")
    if given and what in _OF_INPUTS:
        return f"{_OF_INPUTS[what]} {_placed('input', given)}"
    return _placed("output", name)


def _placed(noun: str, name: str) -> str:
    return f"{noun} {name}" if name[:1].isdigit() else name


def failing(kind: Kind, found: Evidence) -> Verdict:
    """Return the failing verdict for this evidence."""
    return Verdict(Judgement.FAIL, describe(kind, found), kind, found)


def ended(kind: Kind, stage: str, failure: Failure | None, log: str = "") -> Verdict:
    """Return the verdict on an execution that did not finish."""
    told = failure or Failure("", "")
    return failing(
        kind,
        Evidence(
            faults=(Fault.OTHER,),
            stage=stage,
            exception="" if kind is Kind.CRASH else told.type,
            signal=told.type if kind is Kind.CRASH else "",
            message=normalise_message(told.message),
            said=told.message,
            traceback=told.traceback,
            log=log,
        ),
    )


def describe(kind: Kind, found: Evidence, moved_by: str = "the compiler") -> str:
    """Describe a failure in one sentence."""
    if kind in (Kind.ERROR, Kind.CRASH, Kind.TIMEOUT, Kind.OOM):
        return _ending(kind, found)
    if kind is Kind.MISSING_ERROR:
        return f"returns a result where the reference raises {found.wanted[0]}"
    if kind is Kind.WRONG_STRUCTURE:
        return _structure(found)
    if kind is Kind.WRONG_DRAWS:
        return _draws(found)
    if kind is Kind.OUT_OF_BOUNDS:
        return f"writes outside {called(found.output)}: {found.came[0]}"
    if kind in (Kind.WRONG_DTYPE, Kind.WRONG_SHAPE):
        what = "dtype" if kind is Kind.WRONG_DTYPE else "shape"
        return f"{called(found.output)} has {what} {found.came[0]}, expected {found.wanted[0]}"
    if found.pooled_z is not None:
        over = f"over {found.runs} inputs the errors add up to {found.pooled_z:.1f} sigma ({found.direction})"
        return f"bias: {over}"
    told = _numbers(kind, found, moved_by)
    if found.part:
        told = f"{found.part} part: {told}"
    if found.unruled:
        told += f" ({without_rule(found.unruled)})"
    return f"{called(found.output)}: {told}" if found.output else told


def without_rule(operators: Sequence[str]) -> str:
    """Say how operators without a noise rule were judged. Those with a namespace are custom operators."""
    own = [name for name in operators if "::" in name]
    others = [name for name in operators if "::" not in name]
    told = [f"no noise rule for {', '.join(others)}, judged generously"] if others else []
    if own:
        told.append(f"judged around {', '.join(own)}: the operator's own kernel is the reference")
    return "; ".join(told)


def doing(stage: str) -> str:
    """Return the verb for the stage of an execution."""
    return _DOING.get(stage, "running")


def _ending(kind: Kind, found: Evidence) -> str:
    at = doing(found.stage)
    words = {
        Kind.ERROR: f"raised while {at}",
        Kind.CRASH: f"the process died while {at}",
        Kind.TIMEOUT: f"no answer in time while {at}",
        Kind.OOM: f"out of memory while {at}",
    }[kind]
    return words if kind is Kind.TIMEOUT else f"{words}: {found.raised}"


def _draws(found: Evidence) -> str:
    if not found.output:
        return f"returns {found.came[0]}, where eager returns {found.wanted[0]}"
    told = f"the {found.direction} is {found.came[0]}, with eager's random numbers {found.wanted[0]}"
    return f"{called(found.output)}: {told} (the middle of {found.runs} seeds)"


def _structure(found: Evidence) -> str:
    missing = ", ".join(called(name) for name in found.wanted if name not in found.came)
    surplus = ", ".join(called(name) for name in found.came if name not in found.wanted)
    parts = [f"misses {missing}" if missing else "", f"has {surplus} in surplus" if surplus else ""]
    return "the result " + " and ".join(part for part in parts if part)


def _numbers(kind: Kind, found: Evidence, moved_by: str) -> str:
    if kind is Kind.BIAS:
        return (
            f"bias: no single element stands out, but together they drift ({found.direction},"
            f" {found.aggregate_z or 0.0:.0f} sigma)"
        )
    if found.tolerance:
        return _beyond_tolerance(found)
    if found.invalid_choice:
        return f"not a valid choice: {found.invalid_choice}"
    first = found.first
    if first is None:
        return f"{_count(found.wrong, found)} differ"
    if found.fault is Fault.UNINITIALISED:
        wanted, came = _apart(first)
        held = f"{_count(found.wrong, found)} are wrong, and hold what the memory held before"
        return f"{held}; {_at(first)}expected {wanted}, got {came}"
    if kind is Kind.WRONG_ZERO_SIGN:
        return f"{_count(found.wrong, found)} have the other zero; {_at(first)}expected {first.expected}"
    if kind is Kind.WRONG_NONFINITE:
        return _nonfinite(found, first)
    if found.sigma is not None:
        return _by_noise(found, first, moved_by)
    wanted, came = _apart(first)
    if found.allowed is not None:
        return (
            f"{_count(found.wrong, found)} differ; {_at(first)}expected {wanted}, got {came},"
            f" off by {found.error or 0.0:.3g} where rounding allows {found.allowed:.3g}"
        )
    return f"{_count(found.wrong, found)} differ; {_at(first)}expected {wanted}, got {came}"


def _by_noise(found: Evidence, first: Element, moved_by: str) -> str:
    assert found.sigma is not None
    wanted, came = _apart(first)
    beyond = ""
    if found.worst_case is not None:
        worst = "even the worst-case bound of rounding" if found.certain else "what rounding does in practice"
        beyond = f" (beyond {worst})"
    told = (
        f"{_at(first)}expected {wanted}, got {came}: legal rounding moves"
        f" this element by {found.sigma:.2g}; {moved_by} moved it by"
        f" {(found.error or 0.0) / found.sigma if found.sigma else math.inf:.3g} times that{beyond}"
    )
    if found.native_z is not None:
        told += f", the reference{f' ({found.native_by})' if found.native_by else ''} by {found.native_z:.2g} times"
    if found.wrong_nonfinite:
        odd = next((one for one in found.worst if not (_finite(one.expected) and _finite(one.got))), None)
        told += f"; besides, {_nonfinite(found, odd)}" if odd else ""
    return told


def _nonfinite(found: Evidence, one: Element) -> str:
    count = _count(found.wrong_nonfinite or found.wrong, found)
    wanted, came = _apart(one)
    return f"{count} differ in NaN or Inf; {_at(one)}expected {wanted}, got {came}"


def _beyond_tolerance(found: Evidence) -> str:
    told = found.tolerance
    place = f" at {list(told['worst'])}" if told["worst"] is not None else ""
    return (
        f"{told['mismatched']} of {told['size']} elements differ ({100 * told['mismatch_share']:.3g} %);"
        f" greatest absolute difference {told['max_abs']:.6g}{place}, relative {told['max_rel']:.6g},"
        f" {told['max_ulp']:.6g} ulp; rmse {told['rmse']:.6g}; {told['nonfinite_mismatched']} differ in NaN or Inf"
    )


def _count(wrong: int, found: Evidence) -> str:
    return f"{wrong} of {found.elements} elements"


def _at(one: Element) -> str:
    """Return the position of an element as `at [0, 3]: `; an empty string for a scalar."""
    return f"at {list(one.place)}: " if one.place else ""


def _apart(one: Element) -> tuple[str, str]:
    """Return both numbers as text: floats with enough digits to differ, integers in full."""
    if isinstance(one.expected, int) and isinstance(one.got, int):
        return str(one.expected), str(one.got)
    return told_apart(float(one.expected), float(one.got))


def _finite(value: Number) -> bool:
    return math.isfinite(value)
