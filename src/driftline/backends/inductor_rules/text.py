"""Writes patterns as text: complete, for comparison (Inductor's own `repr` is not), and as a tree, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch._inductor.pattern_matcher as pm


def pattern_text(pattern: Any) -> str:
    """Return the complete pattern as one line. A part that occurs twice is written once and then referenced, since
    sharing is a condition too."""
    seen: dict[int, int] = {}

    def write(part: Any) -> str:
        if isinstance(part, (list, tuple)):
            return f"[{', '.join(map(write, part))}]"
        if not isinstance(part, pm.PatternExpr):
            return repr(part)
        if isinstance(part, pm._TargetExpr):
            if id(part) in seen:
                return f"#{seen[id(part)]}"
            seen[id(part)] = number = len(seen)
            inside = [targets(part), *_arguments(part, write), *_users(part)]
            return f"{type(part).__name__}#{number}({'; '.join(inside)})"
        return f"{type(part).__name__}({', '.join(_inside(part, write))})"

    return write(pattern)


def _inside(part: Any, write: Any) -> list[str]:
    if isinstance(part, (pm.KeywordArg, pm.ExclusiveKeywordArg)):
        return [part.name]
    if isinstance(part, pm.ListOf):
        return [write(part.pattern), f"partial={part.partial}"]
    if isinstance(part, pm.MultiOutputPattern):
        return [write(output) for output in part.outputs]
    if isinstance(part, pm.RepeatedExpr):
        return [write(part.inner_pattern)]
    return []


def _arguments(part: Any, write: Any) -> list[str]:
    if not isinstance(part, pm._TargetArgsExpr):
        return []
    return [", ".join([*map(write, part.args), *(f"{key}={write(value)}" for key, value in part.kwargs.items())])]


def _users(part: Any) -> list[str]:
    if part.users == 1:
        return []
    return ["users=any" if part.users is pm.MULTIPLE else f"users={part.users}"]


def targets(part: Any) -> str:
    """Return the functions that a part of a pattern matches, without their in-place and `out` variants."""
    names = dict.fromkeys(target_name(function) for function in part.fns)
    kept = [name for name in names if not name.endswith(("out", "_"))] or list(names)
    return "|".join(kept)


def target_name(function: Any) -> str:
    if isinstance(function, str):
        return function
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(function)
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', function)}".lstrip(".")


def pattern_tree(pattern: Any) -> str:
    """Return the pattern as a tree, one operator per line with its arguments below."""
    return "\n".join(_draw(pattern, "", "", set()))


def _draw(part: Any, head: str, rest: str, seen: set[int]) -> Iterator[str]:
    yield f"{head}{_label(part, id(part) in seen)}"
    if id(part) in seen and isinstance(part, pm._TargetExpr):
        return
    seen.add(id(part))
    children = list(_children(part))
    for at, (name, child) in enumerate(children):
        last = at == len(children) - 1
        label = f"{name}: " if name else ""
        yield from _draw(child, f"{rest}{'└─ ' if last else '├─ '}{label}", rest + ("   " if last else "│  "), seen)


def _children(part: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(part, pm._TargetArgsExpr):
        yield from (("", value) for value in part.args)
        yield from part.kwargs.items()
    elif isinstance(part, pm.ListOf):
        yield "each", part.pattern
    elif isinstance(part, pm.MultiOutputPattern):
        yield from ((f"output {at}", output) for at, output in enumerate(part.outputs))
    elif isinstance(part, pm.RepeatedExpr):
        yield "repeated", part.inner_pattern
    elif isinstance(part, (list, tuple)):
        yield from (("", value) for value in part)


def _label(part: Any, again: bool) -> str:
    if isinstance(part, pm._TargetExpr):
        arguments = "" if isinstance(part, pm._TargetArgsExpr) else " (any arguments)"
        users = {1: ""}.get(part.users, " (any number of users)" if part.users is pm.MULTIPLE else "")
        return f"{targets(part)}{arguments}{users}{' (the same as above)' if again else ''}"
    if isinstance(part, (pm.KeywordArg, pm.ExclusiveKeywordArg)):
        return f"<{part.name}>"
    if isinstance(part, pm.Ignored):
        return "<anything, ignored>"
    if isinstance(part, pm.Arg):
        return "<anything>"
    if isinstance(part, pm.ListOf):
        return "a list"
    if isinstance(part, pm.MultiOutputPattern):
        return "several outputs"
    if isinstance(part, pm.RepeatedExpr):
        return "any number of"
    return "a list" if isinstance(part, (list, tuple)) and part else repr(part)
