"""Makes the title of a bug: one line that says what is wrong, from the measurements.

`exp(NaN) returns inf`, `ReduceMax loses NaN: 3 where NaN is right`, `dropout → add_: -3.1 where -6.2 is right`. The
compiler is shown beside a title (in the bug's name, or in front), so the title does not name it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from driftline.core.evidence import Element, Evidence, Fault, InputClass
from driftline.core.identity import AFTER_ANOTHER_CALL, WITH_GRADIENT
from driftline.core.sentences import called
from driftline.core.short_numbers import short_pair, telling_element
from driftline.core.tensors import is_float
from driftline.core.text import first_line, telling_line
from driftline.core.verdict import COSTS, Kind

KEY = "title_facts"  # in the verdict of a stored finding
SMALLEST = "smallest"  # there, the smallest failing program: its case, its evidence, and its title facts
ARROW = " → "
MOST_NAMED = 4  # operators
MESSAGE = 110  # characters of a compiler's message
_DOING = {"CONVERT": "converting", "SCHEDULE": "scheduling", "COMPILE": "compiling"}
_COSTS = {
    Kind.SLOW: "is slow",
    Kind.SLOW_COMPILE: "takes ever longer to compile",
    Kind.MEMORY: "needs ever more memory to compile",
}
_MAXIMA = ("max", "amax", "reducemax", "globalmaxpool", "adaptivemaxpool", "cummax")  # prefixes of the names
_MINIMA = ("min", "amin", "reducemin", "cummin")
_PARTS = {"real": "real", "imag": "imaginary"}
_LOSSES = {Fault.NAN_LOST: " loses NaN", Fault.INFINITY_LOST: " loses an infinity"}
# Text in front of the important part of a message, and text that differs between machines.
_WRAPPING = re.compile(
    r"^(\[ONNXRuntimeError\] : \d+ : \w+ : |Exception during initialization: |backend='\w+' raised:"
    r"|\S+\.(?:cc|cpp|h):\d+ .*\) (?:const )?)+"  # the position in the C++ source, with the signature of the function
)
_VOLATILE = re.compile(r"0x[0-9a-fA-F]+|(?:/[\w.+-]+)+/")  # addresses, folders


@dataclass(frozen=True)
class TitleFacts:
    """The facts that a title uses besides the evidence: the program and its numbers. Unknown facts stay empty."""

    operators: tuple[str, ...] = ()  # in the order of the program, each once
    dtypes: tuple[str, ...] = ()  # of the inputs, each once
    circumstances: tuple[str, ...] = ()  # `with gradient`, `after another call`, `under vmap`
    given: tuple[str, ...] = ()  # the inputs of a single operator at the shown element
    subject: str = ""  # replaces the facts above: the failing program in words
    ordinary: bool | None = None  # whether the inputs are plain finite numbers, if known
    sentence: str = ""  # the whole title, if it has words of its own

    def to_json(self) -> dict[str, Any]:
        told = {one.name: getattr(self, one.name) for one in fields(self)}
        known = {name: value for name, value in told.items() if value not in ((), "", None)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in known.items()}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> TitleFacts:
        """Read the facts that `to_json` wrote; missing or damaged ones count as unknown."""

        def names(key: str) -> tuple[str, ...]:
            held = value.get(key)
            return tuple(map(str, held)) if isinstance(held, list) else ()

        ordinary = value.get("ordinary")
        return TitleFacts(
            names("operators"),
            names("dtypes"),
            names("circumstances"),
            names("given"),
            str(value.get("subject") or ""),
            ordinary if isinstance(ordinary, bool) else None,
            str(value.get("sentence") or ""),
        )


def _dropped_beside_nan(found: Evidence, operators: Sequence[str], element: Element) -> str:
    """Return "largest" or "smallest", for the number that a maximum or minimum drops only beside NaN; else an empty
    string."""
    name = operators[-1].lower().replace("_", "") if operators else ""
    if InputClass.NAN not in found.needs or found.fault is not Fault.NUMBER:
        return ""
    if name.startswith(_MAXIMA) and element.got < element.expected:
        return "largest"
    return "smallest" if name.startswith(_MINIMA) and element.got > element.expected else ""


def title(kind: str, stage: str, found: Evidence, facts: TitleFacts) -> str:
    """Return the title of a failure. `kind`: the kind in the bug's name."""
    if facts.sentence:
        return facts.sentence
    subject = _subject(found, facts)
    if AFTER_ANOTHER_CALL in facts.circumstances:
        subject += " in a later call"
    if kind in (Kind.ERROR, Kind.CRASH, Kind.TIMEOUT, Kind.OOM):
        return f"{subject} {_ending(kind, stage, found)}"
    if kind in COSTS:
        return f"{subject} {_COSTS[Kind(kind)]}"
    if wrong := _not_of_numbers(kind, found):
        return f"{subject} {wrong}"
    return _of_numbers(kind, found, facts, subject, telling_element(found.worst, found.fault))


def _subject(found: Evidence, facts: TitleFacts) -> str:
    """Return the subject of a title: a call with its numbers, or the operators; with the dtype unless it is float32."""
    if facts.subject:
        return facts.subject
    call = facts.operators and facts.given
    told = f"{facts.operators[0]}({', '.join(facts.given)})" if call else named(facts.operators)
    if found.output.startswith("grad:"):
        told = f"the gradient of {told}"
    floats = [name for name in facts.dtypes if is_float(name) or name.startswith("complex")]
    dtypes = floats or list(facts.dtypes)  # an index or a mask beside floats does not count
    told += f" of {' and '.join(dtypes)}" if dtypes != ["float32"] and 0 < len(dtypes) <= 2 else ""
    shown = [words for words in facts.circumstances if words not in (AFTER_ANOTHER_CALL, WITH_GRADIENT)]
    if WITH_GRADIENT in facts.circumstances and not found.output.startswith("grad:"):
        shown.insert(0, WITH_GRADIENT)
    return " ".join((told, *shown))


def named(operators: Sequence[str]) -> str:
    """Return operators in order: `dropout → add_`."""
    if not operators:
        return "a program"
    if len(operators) > MOST_NAMED:
        return ARROW.join((*operators[: MOST_NAMED - 1], f"{len(operators) - MOST_NAMED + 1} more operators"))
    return ARROW.join(operators)


def _ending(kind: str, stage: str, found: Evidence) -> str:
    moment = _DOING.get(stage, "running")
    if kind == Kind.CRASH:
        return f"kills the process while {moment}" + (f" ({found.signal})" if found.signal else "")
    if kind == Kind.TIMEOUT:
        return f"does not finish {moment} in time"
    if kind == Kind.OOM:
        return f"runs out of memory while {moment}"
    said = _VOLATILE.sub("", _WRAPPING.sub("", telling_line(found.said or found.message))).strip()
    return f"raises: {first_line(said, MESSAGE)}" if said else f"raises {found.exception or 'an error'}"


def _not_of_numbers(kind: str, found: Evidence) -> str:
    """Say what is wrong with an output as a whole; an empty string if single numbers are wrong."""
    wanted, came = ", ".join(found.wanted), ", ".join(found.came)
    if kind == Kind.MISSING_ERROR:
        return f"computes what should raise {first_line(wanted, MESSAGE) or 'an error'}"
    if kind == Kind.WRONG_DRAWS:
        told = f"wrongly: the {found.direction} is {came} where {wanted} is right" if found.direction else came
        return f"draws {told}"
    if kind == Kind.OUT_OF_BOUNDS:
        return "writes outside its arrays"
    if kind == Kind.WRONG_DTYPE:
        return f"returns {came} where {wanted} is right" if came else "returns another dtype"
    if kind == Kind.WRONG_SHAPE:
        return f"returns the shape {came} where {wanted} is right" if came else "returns another shape"
    if kind == Kind.WRONG_STRUCTURE:
        missing = ", ".join(called(name) for name in found.wanted if name not in found.came)
        return f"does not return {missing}" if missing else "returns more outputs than it should"
    if kind == Kind.BIAS or found.pooled_z is not None or (not found.worst and found.direction):
        return f"drifts: many small errors add up{f' ({found.direction})' if found.direction else ''}"
    return ""


def _of_numbers(kind: str, found: Evidence, facts: TitleFacts, subject: str, element: Element | None) -> str:
    if element is None:
        less = kind == Kind.REDUCED_PRECISION
        wrong = f": {found.wrong:,} of {found.elements:,} elements" if found.wrong else ""
        return f"{subject} is less precise than asked{wrong}" if less else f"{subject} returns wrong values{wrong}"
    right, came = short_pair(element.expected, element.got)
    numbers = f"{came} where {right} is right"
    if found.part:  # of complex numbers
        numbers += f" in the {_PARTS.get(found.part, found.part)} part"
    if kind == Kind.REDUCED_PRECISION:
        return f"{subject} is less precise than asked: {numbers}"
    if found.fault is Fault.UNINITIALISED:
        return f"{subject} returns uninitialised memory where {right} is right"
    if found.fault is Fault.TIES:
        return f"{subject} chooses wrongly: {numbers}"
    if found.fault is Fault.SUBNORMAL:
        where = "for subnormal numbers" if InputClass.SUBNORMAL in found.needs else "where the result is subnormal"
        return f"{subject} is wrong {where}: {numbers}"
    if dropped := _dropped_beside_nan(found, facts.operators, element):
        return f"{subject} drops the {dropped} number beside NaN: {numbers}"
    if facts.operators and facts.given and not facts.subject:
        obvious = right == "NaN" and "NaN" in facts.given
        return f"{subject} returns {came if obvious else numbers}"
    return f"{subject}{_LOSSES.get(found.fault, '')}: {numbers}"
