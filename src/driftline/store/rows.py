"""Rows of a store as they are read: each value of its type, and no JSON nested so deep that reading it has no end.

Somebody else may have written the store, or a disk may have damaged it. What is wrong with a row is a `ValueError`
here, for whoever reads it a gap: one line in the report, and the other rows are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from driftline.core.evidence import Evidence
from driftline.core.text import parse_json
from driftline.core.verdict import Fingerprint

# What walking through a value raises that is not made as Driftline makes it.
DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
_DEEP = 100  # JSON that Driftline writes is nested less
_NAME = re.compile(r"[\w.:@+=-]{1,200}", re.ASCII)
_WORDS = re.compile(r"[\w .:@+=/-]{1,200}", re.ASCII)
_TIME = re.compile(r"[\w .:+-]{0,40}", re.ASCII)
_TEXT, _TEXTS = (str,), "texts"
_COUNTS = "two whole numbers"
_DIFFERENCES = "differences of a script"
_OF_DIFFERENCES = ("id", "kind", "event_kind", "path", "expected", "got", "sentence")
_FAILURE: dict[str, Any] = {"type": _TEXT, "message": _TEXT, "traceback": _TEXT}
# Fields that are read; each may be missing or null. Other fields are somebody else's business.
_VERDICT: dict[str, Any] = {
    "verdict": _TEXT, "kind": _TEXT, "reason": _TEXT, "blame": _TEXT, "script": _TEXT, "without": _TEXT,
    "mutation": _TEXT, "failed_runs": _COUNTS, "other_inputs": _COUNTS, "others": (dict,), "artifacts": _TEXTS,
    "sighting": (dict,), "differences": _DIFFERENCES, "rule": {"name": _TEXT, "where": _TEXT},
}  # fmt: skip
_EXECUTION: dict[str, Any] = {
    "target": _TEXT, "outcome": _TEXT, "stage": _TEXT, "failure": _FAILURE, "durations": "numbers", "log": _TEXT,
    "version": _TEXT, "converter": _TEXT, "taken_by": _TEXT,
}  # fmt: skip
_WHOLE = ("rule", "failure")  # of these, no field may be missing


def shallow_json(text: str) -> Any:
    """The value of a JSON text. A `ValueError` if it is none, or is nested too deep for those who walk through it."""
    value = parse_json(text)
    if text.count("[") + text.count("{") > _DEEP:
        level, left = [value], _DEEP
        while level:
            if not left:
                raise ValueError("it is nested too deep")
            level, left = [item for one in level for item in _items(one)], left - 1
    return value


def _items(value: Any) -> Iterable[Any]:
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in held if isinstance(item, (dict, list))]


def fingerprint_of(text: str) -> Fingerprint:
    """The fingerprint of a bug's row."""
    told = shallow_json(text)
    if not isinstance(told, dict) or not all(isinstance(value, str) for value in told.values()):
        raise ValueError("the fingerprint is not made of texts")
    found = Fingerprint(**told)
    if not all(_WORDS.fullmatch(word) for word in (found.backend, found.stage, found.kind)):
        raise ValueError("the fingerprint names no backend, stage or kind")
    return found


def check_bug(row: Iterable[Any]) -> None:
    """Raise `ValueError` for a bug's row that lacks something, or whose name or moments are none."""
    name, fingerprint, status, summary, first, last = row
    if not all(isinstance(value, str) for value in (name, fingerprint, status, summary, first, last)):
        raise ValueError("something is missing")
    if not _NAME.fullmatch(name):
        raise ValueError("not a name of a bug")
    if not (_TIME.fullmatch(first) and _TIME.fullmatch(last)):
        raise ValueError("not a moment")


def check_finding(verdict: Any, execution: Any) -> None:
    """Raise `ValueError` for a finding with a field that is not what its readers take it for."""
    for told, shape, name in ((verdict, _VERDICT, "verdict"), (execution, _EXECUTION, "execution")):
        _check_fields(told, shape, name)
    _check_evidence(verdict.get("evidence"))
    for one in verdict.get("differences") or ():
        _check_evidence(one.get("evidence"))


def _check_evidence(evidence: Any) -> None:
    if evidence is not None and not isinstance(evidence, dict):
        raise ValueError("its evidence is no object")
    try:
        Evidence.from_json(evidence or {})
    except (TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(f"its evidence cannot be read ({type(error).__name__}: {error})") from error


def _check_fields(told: Any, shape: Mapping[str, Any], name: str) -> None:
    if not isinstance(told, dict):
        raise ValueError(f"its {name} is no object")
    for field, wanted in shape.items():
        value = told.get(field)
        if value is None:
            if name in _WHOLE:
                raise ValueError(f"{name}.{field} is missing")
        elif isinstance(wanted, dict):
            if value:
                _check_fields(value, wanted, field)
        elif not _is(value, wanted):
            raise ValueError(f"{name}.{field} is {value!r:.60}")


def _is(value: Any, wanted: Any) -> bool:
    if wanted == _COUNTS:
        return value == [] or (
            isinstance(value, list) and len(value) == 2 and all(type(count) is int for count in value)
        )
    if wanted == _DIFFERENCES:
        return isinstance(value, list) and all(
            isinstance(one, dict) and all(isinstance(one.get(name), str) for name in _OF_DIFFERENCES) for one in value
        )
    if wanted == "numbers":
        return isinstance(value, dict) and all(type(item) in (int, float) for item in value.values())
    if wanted == _TEXTS:
        return isinstance(value, dict) and all(isinstance(item, str) for item in chain(value, value.values()))
    return isinstance(value, wanted)
