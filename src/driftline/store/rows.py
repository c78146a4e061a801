"""Rows of a store as they are read: each value of its type, and no JSON nested so deep that reading it has no end.

Somebody else may have written the store, or a disk may have damaged it. What is wrong with a row is a `ValueError`
here, for whoever reads it a gap: one line in the report, and the other rows are shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.evidence import Evidence
from driftline.core.target import Target
from driftline.core.text import parse_json
from driftline.core.verdict import Fingerprint
from driftline.core.wire import WireError, decode

# What walking through a value raises that is not made as Driftline makes it.
DAMAGE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
_DEEP = 100  # JSON that Driftline writes is nested less
_NAME = re.compile(r"[\w.:@+=-]{1,200}", re.ASCII)
_WORDS = re.compile(r"[\w .:@+=/-]{1,200}", re.ASCII)
_TIME = re.compile(r"[\w .:+-]{0,40}", re.ASCII)
_TEXTS = tuple[str, ...]
RowShape = Mapping[str, Any]
# A shape names the fields that are read, each with its type (as core/wire.py reads it), a shape of its own, or, in a
# list, the shape of its items. A field may be missing or null, except in items and where `_WHOLE` names the object.
# Other fields are somebody else's business.
_DIFFERENCE: RowShape = dict.fromkeys(("id", "kind", "event_kind", "path", "expected", "got", "sentence"), str)
_SIGHTING: RowShape = {
    "machine": str, "operators": _TEXTS, "dtypes": _TEXTS, "settings": _TEXTS,
    "answers": [{"passes": str, "value": str, "answer": bool}],
}  # fmt: skip
_VERDICT: RowShape = {
    "verdict": str, "kind": str, "reason": str, "blame": str, "script": str, "without": str, "mutation": str,
    "failed_runs": list[int], "other_inputs": list[int], "others": Mapping[str, Any], "artifacts": Mapping[str, str],
    "sighting": _SIGHTING, "differences": [_DIFFERENCE], "rule": {"name": str, "where": str},
}  # fmt: skip
_EXECUTION: RowShape = {
    "target": str, "outcome": str, "stage": str, "durations": Mapping[str, float], "log": str, "version": str,
    "converter": str, "taken_by": str, "failure": {"type": str, "message": str, "traceback": str},
}  # fmt: skip
_PROGRAM: RowShape = {
    "form": str, "framework": str, "digest": str, "name": str, "outputs": _TEXTS, "operators": _TEXTS, "pattern": str,
    "circumstances": _TEXTS, "data": _TEXTS, "state": str, "origin": str,
    "inputs": [{"name": str, "dtype": str, "shape": tuple[int, ...]}],
}  # fmt: skip
_CASE: RowShape = {
    "program": _PROGRAM, "deployed": {"program": _PROGRAM, "inputs": Mapping[str, str]}, "targets": _TEXTS,
    "samples": [{"object": str, "origin": str}],
    "options": {
        "grad": bool, "seed": int, "timeout": float, "memory_limit": int, "signed_zero": bool, "oracle": str,
        "plugins": _TEXTS, "accept": _TEXTS, "stress": bool,
    },
}  # fmt: skip
_PLAN: RowShape = {
    "targets": _TEXTS, "accept": _TEXTS, "plugins": _TEXTS, "shard": str,
    "seed": int, "seconds": float, "programs": int, "timeout": float, "llm": {"model": str},
}  # fmt: skip
_ENVIRONMENT: RowShape = {"versions": Mapping[str, str | None], "left_out": _TEXTS, "run": str}
_COUNTS = ("failed_runs", "other_inputs")  # of a verdict: so many of so many, or nothing
_WHOLE = ("rule", "failure")


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
    _check_object(verdict, _VERDICT, "verdict")
    _check_object(execution, _EXECUTION, "execution")
    for name in _COUNTS:
        if len(verdict.get(name) or (0, 0)) != 2:
            raise ValueError(f"verdict.{name} is {verdict[name]!r:.60}")
    _check_evidence(verdict.get("evidence"))
    for difference in verdict.get("differences") or ():
        _check_evidence(difference.get("evidence"))


def check_case(body: object) -> None:
    """Raise `ValueError` for the body of a case with a field that is not what its readers take it for."""
    _check_object(body, _CASE, "case")


def check_hunt(plan: Any, environment: Any) -> None:
    """Raise `ValueError` for a hunt with a field that is not what its readers take it for."""
    _check_object(plan, _PLAN, "plan")
    _check_object(environment, _ENVIRONMENT, "environment")
    try:
        for target in (*(plan.get("targets") or ()), *(environment.get("versions") or ())):
            Target.parse(target)
    except DriftlineError as error:
        raise ValueError(f"a target is none: {error}") from error


def check_texts(*columns: object) -> None:
    """Raise `ValueError` for a column of text that holds a number or bytes: SQLite lets any column hold any value."""
    for value in columns:
        if not isinstance(value, str):
            raise ValueError(f"{value!r:.60} is no text")


def _check_evidence(evidence: Any) -> None:
    if evidence is not None and not isinstance(evidence, dict):
        raise ValueError("its evidence is no object")
    try:
        Evidence.from_json(evidence or {})
    except DAMAGE as error:
        raise ValueError(f"its evidence cannot be read ({type(error).__name__}: {error})") from error


def _check_object(told: object, shape: RowShape, name: str, *, whole: bool = False) -> None:
    if not isinstance(told, dict):
        raise ValueError(f"its {name} is no object")
    for field, wanted in shape.items():
        value = told.get(field)
        if value is not None:
            _check_value(value, wanted, name, field)
        elif whole:
            raise ValueError(f"{name}.{field} is missing")


def _check_value(value: Any, wanted: Any, name: str, field: str) -> None:
    if isinstance(wanted, dict):
        if value:
            _check_object(value, wanted, field, whole=field in _WHOLE)
        return
    several = isinstance(wanted, list)
    try:
        decode(list[object] if several else wanted, value)
    except WireError as error:
        raise ValueError(f"{name}.{field} is {value!r:.60}") from error
    for item in value if several else ():
        _check_object(item, wanted[0], field, whole=True)
