"""The measurements of a failure: the record from which every sentence about it is made, and against which causes are
matched.

Every verdict carries one. The record has fields for the numbers of every oracle; those that do not apply stay empty and
are left out of the JSON. Code never parses the sentences: if it needs more, a field is added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from driftline.core.wire import own_form

Number = int | float
Totals = Mapping[str, tuple[float, float]]


class Fault(StrEnum):
    """The ways in which elements of an output are wrong."""

    NUMBER = "finite-value"  # a wrong number where a number is expected
    SIGN = "sign"  # the right number with the wrong sign
    SUBNORMAL = "subnormal"  # both numbers are subnormal, or zero
    BEYOND_RANGE = "beyond-range"  # the expected number does not fit a narrower type; the result does
    TIES = "order-of-ties"  # an invalid choice among equals, such as the index of a maximum
    UNINITIALISED = "uninitialised-memory"  # the result is the old content of the memory
    NAN_LOST = "nan-lost"
    NAN_MADE = "nan-made"
    INFINITY_LOST = "infinity-lost"
    INFINITY_MADE = "infinity-made"
    INFINITY_TURNED = "infinity-turned"  # an infinity of the opposite sign
    ILL_CONDITIONED = "ill-conditioned"  # most other elements move too much to be judged at all
    OTHER = "other"  # does not show in numbers: an error, a dtype, a shape

    def stands_for(self, other: Fault) -> bool:
        """True if `other` is most likely the same bug, shown more clearly by a smaller program."""
        return other is self or other in _CLEARER.get(self, ())


_CLEARER = {
    Fault.NUMBER: (Fault.SIGN,),
    Fault.TIES: (Fault.NUMBER, Fault.SIGN),  # the numbers among which the choice was made
    Fault.ILL_CONDITIONED: (Fault.NUMBER, Fault.SIGN),
    Fault.UNINITIALISED: (Fault.NUMBER, Fault.SIGN, Fault.SUBNORMAL),  # the faults that a single run may show
}


class Region(StrEnum):
    """How the wrong elements are distributed in their tensor."""

    ALL = "every-element"
    SLICES = "whole-slices"  # of one axis: rows, channels
    TAIL = "tail-of-axis"  # the last elements of an axis, and no others
    HEAD = "head-of-axis"
    SCATTERED = "scattered"


class InputClass(StrEnum):
    """Classes of input numbers without which a failure may disappear."""

    NAN = "nan"
    INFINITY = "infinity"
    SUBNORMAL = "subnormal"
    ZERO = "zero"
    NEGATIVE = "negative"
    LARGE = "large"
    TIES = "ties"


@dataclass(frozen=True)
class Element:
    """One wrong element. `noise`: how far rounding may move it, or the allowed error; 0 if unknown."""

    place: tuple[int, ...]
    expected: Number
    got: Number
    unoptimised: Number | None = None
    noise: float = 0.0

    def to_json(self) -> dict[str, Any]:
        told = {"place": list(self.place), "expected": _told(self.expected), "got": _told(self.got)}
        if self.unoptimised is not None:
            told["unoptimised"] = _told(self.unoptimised)
        return told | ({"noise": self.noise} if self.noise else {})

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Element:
        unoptimised = value.get("unoptimised")
        return Element(
            tuple(value.get("place") or ()),
            number(value["expected"]),
            number(value["got"]),
            None if unoptimised is None else number(unoptimised),
            float(value.get("noise") or 0.0),
        )


@own_form
@dataclass(frozen=True)
class Evidence:
    """The measurements of one failure. Failures without numbers (an error, a wrong shape) use the second half."""

    sample: int | None = None  # index of the failing input sample
    output: str = ""
    part: str = ""  # real or imag
    dtype: str = ""
    elements: int = 0
    wrong: int = 0
    wrong_nonfinite: int = 0  # of these, elements that differ in being NaN or infinite
    unjudged: int = 0
    worst: tuple[Element, ...] = ()  # the worst first
    faults: tuple[Fault, ...] = ()  # first the fault on which the verdict rests
    regions: tuple[Region, ...] = ()
    narrower: str = ""  # for BEYOND_RANGE: the type whose range contains the result
    needs: tuple[InputClass, ...] = ()  # found by experiment: the failure disappears without these in the inputs
    invalid_choice: str = ""  # why a choice among elements is not valid

    # By the rounding-noise rule, in units of sigma.
    z: float | None = None
    element_z: float | None = None
    aggregate_z: float | None = None
    pooled_z: float | None = None  # over several inputs
    direction: str = ""  # of a drift; for random numbers, the fact that differs
    error: float | None = None
    sigma: float | None = None
    native_z: float | None = None
    native_worst_z: float | None = None
    native_by: str = ""  # the source of the unoptimised run: a framework, the reference evaluator, the player
    worst_case: float | None = None  # the largest error that rounding can cause, in sigma, if all roundings add up
    certain: bool = False  # beyond even the worst case
    runs: int = 0
    unruled: tuple[str, ...] = ()  # operators without a noise rule
    # By the rule for programs without a shadow.
    ratio: float | None = None  # the error divided by the allowed error
    allowed: float | None = None
    native_error: float | None = None
    # By a plain tolerance.
    tolerance: Mapping[str, Any] = field(default_factory=dict)

    # How the run ended.
    stage: str = ""
    exception: str = ""
    message: str = ""  # of the compiler, without addresses, paths, numbers and shapes
    said: str = ""  # the original text of the message
    signal: str = ""
    traceback: str = ""
    log: str = ""
    wanted: tuple[str, ...] = ()  # the expected outputs, dtype, shape or error
    came: tuple[str, ...] = ()

    # Why it may be no failure.
    policies: tuple[str, ...] = ()  # policies of less precise arithmetic under which the outputs are right
    accept: str = ""  # the option that accepts them
    otherwise: str = ""  # the reason without these policies
    accepted: tuple[str, ...] = ()
    unspecified: tuple[str, ...] = ()  # clauses of `oracle.specification`
    blank: bool = False  # NaN everywhere on both sides
    disputed: str = ""
    totals: Totals = field(default_factory=dict)  # for pooling over inputs

    @property
    def fault(self) -> Fault:
        """The fault on which the verdict rests."""
        return self.faults[0] if self.faults else Fault.OTHER

    @property
    def first(self) -> Element | None:
        return self.worst[0] if self.worst else None

    @property
    def raised(self) -> str:
        """The error, or how the process died, as sentences quote it."""
        what = self.exception or self.signal
        return f"{what}: {self.said}" if self.said else what

    @property
    def size(self) -> float:
        """The size of the error: in sigmas, or relative to the allowed error; 1 without a measure (an error, a wrong
        shape)."""
        return next((found for found in (self.z, self.pooled_z, self.ratio) if found is not None), 1.0)

    def to_json(self) -> dict[str, Any]:
        """Return the known fields as JSON that every parser accepts."""
        told: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value is None or (not value and one.name != "sample" and not isinstance(value, float)):
                continue
            told[one.name] = _json(value)
        return told

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Evidence:
        """Read the stored form; keys that this release does not know are ignored, since a newer one may have written
        them."""
        known: dict[str, Any] = {}
        for name in _NAMES:
            if name in value:
                known[name] = _READ.get(name, _plain)(value[name])
        return Evidence(**known)


_NAMES = tuple(one.name for one in fields(Evidence))
NOTHING = Evidence()


def number(told: Any) -> Number:
    """Read a number from JSON, where NaN and infinities are text, or from the text of a Python or numpy number."""
    if isinstance(told, bool) or not isinstance(told, str):
        return told if isinstance(told, (int, float)) else math.nan
    if told in ("True", "False"):
        return told == "True"
    try:
        return int(told)
    except ValueError:
        try:
            return float(told)
        except ValueError:
            return math.nan


def _told(value: Number) -> Number | str:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _json(value: Any) -> Any:
    if isinstance(value, Element):
        return value.to_json()
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _json(item) for key, item in value.items()}
    return _told(value) if isinstance(value, float) else value


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _number_or_none(value: Any) -> float | None:
    return None if value is None else float(value)


def _members(kind: type[StrEnum]) -> Any:
    known = {str(member): member for member in kind}

    def read(values: Iterable[str]) -> tuple[StrEnum, ...]:
        return tuple(known[value] for value in values if value in known)

    return read


_READ: dict[str, Any] = {
    "worst": lambda values: tuple(Element.from_json(value) for value in values),
    "faults": _members(Fault),
    "regions": _members(Region),
    "needs": _members(InputClass),
    "totals": lambda values: {key: tuple(map(float, pair)) for key, pair in values.items()},
    **dict.fromkeys(
        ("z", "element_z", "aggregate_z", "pooled_z", "error", "sigma", "native_z", "native_worst_z", "worst_case",
         "ratio", "allowed", "native_error"),
        _number_or_none,
    ),
}  # fmt: skip
