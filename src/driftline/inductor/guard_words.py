"""Describes guards in words: the conditions under which compiled code is used again.

torch prints the guards of a compilation as a tree; a leaf is `KIND: expression  # code  # file:line in function`.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

_LEAF = re.compile(r"^[| ]*\+- (?P<kind>[A-Z_]+): (?P<rest>.*)$")
_SKIPPED = {"DIMENSION_DYNAMIC_MARKING_GUARD", "NO_TENSOR_ALIASING", "STORAGE_OVERLAPPING"}
_STATE = {"GLOBAL_STATE", "TORCH_FUNCTION_MODE_STACK", "DEFAULT_DEVICE", "LAMBDA_GUARD"}
_TENSOR = re.compile(
    r"check_tensor\((?P<source>.+?), \w+, DispatchKeySet\((?P<keys>.*?)\), torch\.(?P<dtype>\w+),"
    r" device=(?P<device>[^,]+), requires_grad=(?P<grad>\w+), size=\[(?P<size>[^\]]*)\], stride=\[(?P<stride>[^\]]*)\]"
)
_IDENTITY = re.compile(r"___check_obj_id\((?P<source>.+?), \d+\)")
_TYPE = re.compile(r"___check_type_id\((?P<source>.+?), \d+\), type=<class '(?P<type>[^']+)'>")
_WHERE = re.compile(r"(?P<file>\S+):(?P<line>\d+) in (?P<function>\S+)")


@dataclass(frozen=True)
class Guard:
    """One condition on something that a compiled graph depends on."""

    kind: str  # as torch calls it
    subject: str  # the guarded value, as the user would write it: `x`, `self.scale`
    words: str
    about: str  # input, module, global or state
    place: str = ""  # the user's line that made it necessary, as torch shortens it

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_guards(text: str) -> tuple[Guard, ...]:
    """Return the guards of a compilation, inputs first, guards on torch's own state (modes, default device) last."""
    found: dict[tuple[str, str], Guard] = {}
    for line in text.splitlines():
        match = _LEAF.match(line)
        if match and match["kind"] not in _SKIPPED:
            guard = _read(match["kind"], match["rest"])
            found.setdefault((guard.kind, guard.words), guard)
    order = {"input": 0, "module": 1, "global": 2, "state": 3}
    return tuple(sorted(found.values(), key=lambda guard: order[guard.about]))


def _read(kind: str, rest: str) -> Guard:
    expression, _, comment = rest.partition("  # ")
    expression = expression.strip()
    where = _WHERE.search(comment)
    place = f"{where['file']}:{where['line']}" if where else ""
    subject, words = _words(kind, expression)
    return Guard(kind, subject, words, _about(kind, expression, subject), place)


def _words(kind: str, expression: str) -> tuple[str, str]:
    if match := _TENSOR.search(expression):
        subject = plain(match["source"])
        sizes = ", ".join("any" if size.strip() == "None" else size.strip() for size in match["size"].split(","))
        grad = "with" if match["grad"] == "True" else "without"
        device = f" on {match['keys'].split(',')[0].strip().lower()}" if match["keys"] else ""
        return subject, f"{subject} is a {match['dtype']} tensor of size [{sizes}]{device}, {grad} gradient"
    if match := _IDENTITY.search(expression):
        subject = plain(match["source"])
        return subject, f"{subject} is the same object"
    if match := _TYPE.search(expression):
        subject = plain(match["source"])
        return subject, f"{subject} is a {match['type'].rpartition('.')[2]}"
    if kind == "GLOBAL_STATE":
        return "torch", "the global settings of torch (grad mode, autocast, default dtype, threads) are the same"
    if kind == "TORCH_FUNCTION_MODE_STACK":
        return "torch", "the same torch-function modes are active"
    if kind == "DEFAULT_DEVICE":
        return "torch", "the default device is the same"
    words = plain(expression)
    subject = re.split(r" (?:==|is|in|not|!=|<=|<|>=|>) ", words)[0]
    return subject, words


def _about(kind: str, expression: str, subject: str) -> str:
    if (
        kind in ("GLOBAL_STATE", "TORCH_FUNCTION_MODE_STACK", "DEFAULT_DEVICE", "LAMBDA_GUARD")
        and "L[" not in expression
    ):
        return "state"
    if "L[" not in expression:
        return "global"
    return "module" if subject.startswith("self.") or "_modules[" in expression or subject == "self" else "input"


def plain(source: str) -> str:
    """Return torch's path to a value as a user would write it: `L['self']._modules['a'].weight` is `self.a.weight`."""
    text = re.sub(r"\b[LG]\['(\w+)'\]", r"\1", source)
    text = re.sub(r"\._(?:modules|parameters|buffers)\['(\w+)'\]", r".\1", text)
    text = re.sub(r"\.__dict__\['(\w+)'\]", r".\1", text)
    text = re.sub(r"__import_(\w+)", lambda m: m[1].replace("_dot_", "."), text)
    return text.strip()
