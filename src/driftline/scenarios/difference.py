"""A difference between the eager and the compiled run of a script, and the sentence that describes it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from driftline.core.evidence import NOTHING, Evidence
from driftline.core.text import plural
from driftline.scenarios.recording import BACKWARD, END, GRAD, MAKE, Raised, ScriptEvent


class Change(StrEnum):
    """The kind of a difference: the first part of its id."""

    VALUE = "wrong-value"
    DTYPE = "wrong-dtype"
    SHAPE = "wrong-shape"
    DEVICE = "wrong-device"
    LAYOUT = "wrong-layout"
    CLASS = "wrong-class"
    SIZE = "wrong-size"  # of a list, dict, set, tuple
    CONTENTS = "wrong-contents"  # a plain value, or the keys of a dict
    MISSING = "missing"  # an attribute, a gradient, an element that eager has
    SURPLUS = "surplus"
    REQUIRES_GRAD = "requires-grad"
    IDENTITY = "other-object"  # one object in place of two, or the other way round
    SHARING_LOST = "sharing-lost"  # two tensors overlap in memory under eager
    SHARING_MADE = "sharing-made"
    MISSING_ERROR = "missing-error"
    ERROR = "error"
    OTHER_ERROR = "other-error"
    RANDOM = "random-state"
    MODE = "mode"  # grad mode, autocast, default dtype
    PRINTED = "printed"
    EVENTS = "other-calls"  # the script takes another path
    CRASH = "crash"


@dataclass(frozen=True)
class Difference:
    """One difference from the eager run. `expected` and `got` are short texts for people."""

    change: Change
    event: int
    kind: str  # of the event
    when: str  # the event in words: `after the second call of step`
    path: str = ""
    expected: str = ""
    got: str = ""
    evidence: Evidence = NOTHING
    reason: str = ""  # of the oracle, about values
    raised: Raised | None = None  # of a difference in exceptions: that of the compiled run, else that of eager

    @property
    def id(self) -> str:
        """The identity of the difference, which is equal in every run and does not depend on the sentences."""
        text = json.dumps([self.change, self.kind, self.event, self.path])
        return f"{self.change}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def sentence(self) -> str:
        """A sentence for the user about the difference."""
        return f"{self.when}, {_told(self)}"

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": str(self.change),
            "event": self.event,
            "event_kind": self.kind,
            "path": self.path,
            "expected": self.expected,
            "got": self.got,
            "sentence": self.sentence,
            "evidence": self.evidence.to_json(),
        }


def _told(one: Difference) -> str:
    where, eager, got = spoken(one.path), one.expected, one.got
    match one.change:
        case Change.VALUE if one.reason:
            return f"{where} is wrong: {one.reason}"
        case Change.CLASS:
            return f"{where} is a {got}, under eager a {eager}"
        case Change.DEVICE:
            return f"{where} is on {got}, under eager on {eager}"
        case Change.MISSING:
            return f"{where} is missing, eager has {eager}"
        case Change.SURPLUS:
            return f"{where} is {got}, eager has none"
        case Change.REQUIRES_GRAD:
            lost = eager == "True"
            return f"requires_grad of {where} is lost" if lost else f"{where} requires grad, and not under eager"
        case Change.IDENTITY:
            return f"{where} {_object(got)}, under eager it {_object(eager)}"
        case Change.SHARING_LOST:
            return f"{_pair(one.path)} under eager and not when compiled"
        case Change.SHARING_MADE:
            return f"{_pair(one.path)} when compiled and not under eager"
        case Change.MISSING_ERROR | Change.ERROR | Change.OTHER_ERROR:
            return _error(one)
        case Change.RANDOM:
            return f"the {where} is another one: the compiled function drew other random numbers"
        case Change.MODE:
            return f"the {where} is {got}, under eager {eager}"
        case Change.PRINTED:
            return f"the script has printed {got}, under eager {eager}"
        case Change.EVENTS:
            return f"the script goes on with {got}, under eager with {eager}"
        case Change.CRASH:
            return f"the process died: {got}"
    noun = {Change.DTYPE: "dtype ", Change.SHAPE: "shape ", Change.LAYOUT: "layout ", Change.SIZE: ""}.get(one.change)
    return f"{where} is {got}, eager has {eager}" if noun is None else f"{where} has {noun}{got}, eager has {eager}"


def _error(one: Difference) -> str:
    if one.kind == END:
        ended = {Change.ERROR: "ends normally", Change.OTHER_ERROR: f"raises {one.expected}"}
        return f"the compiled script raises {one.got}, eager {ended.get(one.change, '')}"
    if one.kind == MAKE:
        return f"the compiler raises {one.got}, eager calls the program on these inputs"
    if one.change is Change.MISSING_ERROR:
        return f"eager raises {one.expected}, the compiled function returns a value"
    eager = f"raises {one.expected}" if one.change is Change.OTHER_ERROR else "returns a value"
    return f"the compiled function raises {one.got}, eager {eager}"


def _object(text: str) -> str:
    same = text.removeprefix("is ")
    return f"is the same object as {spoken(same)}" if text.startswith("is ") else "is an object of its own"


SHARING = " & "  # between the two paths of a pair


def _pair(path: str) -> str:
    first, second = path.split(SHARING)
    if second.startswith("output") and not first.startswith("output"):
        first, second = second, first
    return f"{spoken(first)} shares memory with {spoken(second)}"


def spoken(path: str) -> str:
    """Return a path as it is written in a sentence: `output[1]` becomes `output 1`, an attribute is quoted as code."""
    if path.startswith("output["):
        place, _, rest = path.removeprefix("output[").partition("]")
        return f"output {place}{rest}"
    if path.startswith(("self", "class ")) or "." in path or "[" in path:
        return f"`{path.removeprefix('global ')}`"
    return path


def elements(size: int) -> str:
    """Return the size of a container in words."""
    return plural(size, "element")


_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def moment(event: ScriptEvent, before: tuple[ScriptEvent, ...]) -> str:
    """Return the event in words, such as `after the second call of step`; `before` are the earlier events."""
    if event.kind == END:
        return "at the end of the script"
    place = sum((one.kind, one.name) == (event.kind, event.name) for one in before)
    ordinal = _ORDINALS[place] if place < len(_ORDINALS) else f"{place + 1}th"
    called = {BACKWARD: "backward()", GRAD: "autograd.grad()", MAKE: f"{event.name}()"}
    return f"after the {ordinal} {called.get(event.kind, f'call of {event.name}')}"
