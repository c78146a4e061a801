"""Lists every rewrite rule that TorchInductor has registered, under names that are the same in every run.

The rules are Python objects in the tables of `torch._inductor.fx_passes`. Most are there after an import, the rest
after the tables' own lazy initialisation, which a compilation would do too.
"""

from __future__ import annotations

import collections
import hashlib
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch._inductor.pattern_matcher as pm

from driftline.backends.inductor_rules.needs import needs_of
from driftline.backends.inductor_rules.text import pattern_text
from driftline.backends.inductor_rules.unreachable import out_of_reach
from driftline.core.rule import Rule

_PASSES = "torch._inductor.fx_passes"


@dataclass(frozen=True)
class Registered:
    """A rule with the objects behind it. For replacements, also the function that the pattern was traced from."""

    rule: Rule
    entry: Any
    table: Any  # the PatternMatcherPass
    search: Callable[..., Any] | None = None
    replace: Callable[..., Any] | None = None
    examples: Sequence[Any] = ()
    scalars: Mapping[str, Any] = field(default_factory=dict)
    training: bool = False  # its pattern was traced with the backward
    condition: Callable[..., Any] | None = None  # its extra check besides the pattern

    @property
    def handler(self) -> Callable[..., Any] | None:
        return self.search or getattr(self.entry, "handler", None)


@cache
def registered() -> tuple[Registered, ...]:
    """Return all rules. Must be called before the first compilation, to hook registration before tables are filled."""
    origins = _watch_replacements()
    modules = _load_tables()
    found: list[Registered] = []
    counted: collections.Counter[str] = collections.Counter()
    for group, table in _tables(modules):
        entries = {id(entry): entry for slot in table.patterns.values() for entry in slot}
        for entry in entries.values():
            made = _register(group, table, entry, origins)
            counted[made.rule.id] += 1
            if counted[made.rule.id] > 1:  # the same pattern and handler, with other values in a closure
                made = _numbered(made, counted[made.rule.id])
            found.append(made)
    return tuple(found)


def find(rule_id: str) -> Registered:
    return next(each for each in registered() if each.rule.id == rule_id)


@dataclass(frozen=True)
class _Origin:
    """The arguments of a replacement's registration."""

    search: Callable[..., Any]
    replace: Callable[..., Any]
    examples: Sequence[Any]
    scalars: Mapping[str, Any]
    training: bool
    pattern: Any  # kept alive: its identity is the key


def _watch_replacements() -> dict[int, _Origin]:
    """Record the arguments of replacements when they are registered: the table keeps only the traced pattern."""
    origins: dict[int, _Origin] = {}
    original = pm.register_replacement

    def watched(search: Any, replace: Any, examples: Any, trace: Any, *args: Any, **kwargs: Any) -> Any:
        pattern = original(search, replace, examples, trace, *args, **kwargs)
        if pattern is not False:
            scalars = kwargs.get("scalar_workaround") or (args[2] if len(args) > 2 else None) or {}
            origins[id(pattern)] = _Origin(search, replace, examples, scalars, trace is pm.joint_fwd_bwd, pattern)
        return pattern

    def named(search_fn: Any, replace_fn: Any, example_inputs: Any, trace_fn: Any, *args: Any, **kwargs: Any) -> Any:
        return watched(search_fn, replace_fn, example_inputs, trace_fn, *args, **kwargs)

    for module in list(sys.modules.values()):  # some have taken the function over by name already
        if getattr(module, "register_replacement", None) is original:
            module.register_replacement = named  # type: ignore[attr-defined]
    return origins


def _load_tables() -> dict[str, ModuleType]:
    package = importlib.import_module(_PASSES)
    modules = {}
    for info in pkgutil.iter_modules(package.__path__):
        try:
            modules[info.name] = importlib.import_module(f"{_PASSES}.{info.name}")
        except ImportError:  # a pass for hardware or packages that are not here
            continue
    for name, arguments in {
        "pre_grad": (),
        "joint_graph": (torch.device("cpu"),),
        "post_grad": (),
        "freezing_patterns": (),
    }.items():
        init = modules[name].lazy_init
        init(*arguments[: len(inspect.signature(init).parameters)])  # of older releases it takes no device
    return modules


def _tables(modules: Mapping[str, ModuleType]) -> Iterator[tuple[str, Any]]:
    """Yield the tables with the module attribute that reaches each."""
    seen: set[int] = set()
    for module_name, module in sorted(modules.items()):
        for name, value in sorted(vars(module).items()):
            if isinstance(value, dict):
                members = [(f"{name}[{key!r}]", item) for key, item in value.items()]
            elif isinstance(value, (list, tuple)):
                members = [(f"{name}[{at}]", item) for at, item in enumerate(value)]
            else:
                members = [(name, value)]
            for path, item in members:
                if isinstance(item, pm.PatternMatcherPass) and id(item) not in seen:
                    seen.add(id(item))
                    yield f"{module_name}.{path}", item


def _register(group: str, table: Any, entry: Any, origins: Mapping[int, _Origin]) -> Registered:
    origin = origins.get(id(entry.pattern))
    kind = re.sub(r"PatternEntry$", "", type(entry).__name__).lower()
    condition = entry.extra_check
    if isinstance(entry, pm.ReplacementPatternEntry):
        closed = _closure(entry.extra_check)
        handler = origin.search if origin else closed.get("search_fn")
        condition = closed.get("extra_check", condition)
    else:
        handler = entry.handler
    name, where = _name_and_place(handler)
    check, _ = _name_and_place(condition)
    text = pattern_text(entry.pattern)
    digest = hashlib.sha256("\n".join((group, name, check, text)).encode()).hexdigest()[:8]
    shown = getattr(entry, "pattern_name", None) or name
    rule = Rule(digest, "inductor", group, shown, kind, where, check, needs_of(group, shown, text), "", text)
    rule = _with_reason(rule, *out_of_reach(rule, entry))
    if origin is None:
        return Registered(rule, entry, table, condition=condition)
    return Registered(
        rule, entry, table, origin.search, origin.replace, origin.examples, origin.scalars, origin.training, condition
    )


def _with_reason(rule: Rule, reason: str, dead: bool) -> Rule:
    return replace(rule, unreachable=reason, dead=dead) if reason else rule


def _numbered(made: Registered, number: int) -> Registered:
    rule = Rule(**{**made.rule.__dict__, "id": f"{made.rule.id}.{number}"})
    return Registered(**{**made.__dict__, "rule": rule})


def _bare(function: Any) -> Any:
    while hasattr(function, "func"):
        function = function.func
    return inspect.unwrap(function) if callable(function) else function


def _name_and_place(function: Any) -> tuple[str, str]:
    function = _bare(function)
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", type(function).__name__)
    if code is None:
        return name, ""
    path = Path(code.co_filename)
    parts = path.parts[path.parts.index("torch") :] if "torch" in path.parts else (path.name,)
    return name, f"{'/'.join(parts)}:{code.co_firstlineno}"


def _closure(function: Any) -> dict[str, Any]:
    function = _bare(function)
    cells = getattr(function, "__closure__", None) or ()
    names = function.__code__.co_freevars if cells else ()
    found = {}
    for name, cell in zip(names, cells, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not set yet
            continue
    return found
