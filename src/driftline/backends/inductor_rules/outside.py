"""Rewrites outside the pattern tables: group and batch fusions, removals of no-ops, whole passes, decompositions and
lowerings. Each has a name and is counted like the rules of the tables.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch
import torch._inductor.compile_fx as compile_fx
from torch._inductor import fx_passes
from torch._inductor.fx_passes import group_batch_fusion, post_grad
from torch._inductor.graph import GraphLowering
from torch._inductor.lowering import fallback_handler, lowerings
from torch.fx.passes.graph_transform_observer import GraphTransformObserver

from driftline.core.rule import DECOMPOSITION, FUSION, LOWERING, NO_OP, PASS, Rule

GraphSignature = Callable[[Any], object]


class PassWatcher(Protocol):
    """An observer of rewrites: it is told about each one and may forbid it."""

    def note(self, rule_id: str, changed: bool) -> None: ...

    def forbids(self, rule_id: str) -> bool: ...


# Passes for several machines, for GPUs, or for functions that a user gives: nothing that a program here can bring about
_ELSEWHERE = re.compile(r"custom|bucket|collective|comms|ddp|overlap|reduce_scatter|cuda|dedup")


@cache
def outside_rules() -> tuple[Rule, ...]:
    """Return all rewrites outside the pattern tables, with ids that begin with their kind."""
    return (*_fusions(), *_no_ops(), *_passes(), *_decompositions(), *_lowered())


def _rule(kind: str, name: str, group: str, function: Any = None, **more: Any) -> Rule:
    return Rule(f"{kind}/{name}", "inductor", group, name, kind, _place(function), **more)


def _place(function: Any) -> str:
    function = inspect.unwrap(function) if callable(function) else function
    try:
        path, line = Path(inspect.getsourcefile(function) or ""), inspect.getsourcelines(function)[1]
    except (OSError, TypeError):
        return ""
    parts = path.parts[path.parts.index("torch") :] if "torch" in path.parts else (path.name,)
    return f"{'/'.join(parts)}:{line}"


def _fusions() -> Iterator[Rule]:
    tables = {**group_batch_fusion.PRE_GRAD_FUSIONS, **group_batch_fusion.POST_GRAD_FUSIONS}
    for name, kind in tables.items():
        reason = "needs fbgemm, which is not installed" if name == "group_linear" and not _has_fbgemm() else ""
        yield _rule(FUSION, name, "group_batch_fusion", kind, needs=(("fusions", name),), unreachable=reason)


def _has_fbgemm() -> bool:
    return bool(getattr(group_batch_fusion, "has_fbgemm", False))


def _no_ops() -> Iterator[Rule]:
    for target, (condition, _) in post_grad.noop_registry.items():
        yield _rule(NO_OP, str(target), "post_grad.noop_registry", condition, unreachable=_functionalised(target))


def _passes() -> Iterator[Rule]:
    """Yield the passes, whose names are read from Inductor's source."""
    names: dict[str, None] = {}
    folder = Path(fx_passes.__path__[0])
    for path in [*sorted(folder.glob("*.py")), Path(str(compile_fx.__file__))]:
        names |= dict.fromkeys(re.findall(r'GraphTransformObserver\(\s*[\w.]+,\s*"(\w+)"', path.read_text()))
    for name in sorted(names):
        reason = "for several machines, GPUs or passes of a user's own" if _ELSEWHERE.search(name) else ""
        yield _rule(PASS, name, "graph passes", unreachable=reason)
    yield _rule(PASS, "constant_fold", "freezing", _freezing().constant_fold, needs=(("freezing", "true"),))


def _decompositions() -> Iterator[Rule]:
    for target, function in compile_fx.select_decomp_table().items():
        if isinstance(target, torch._ops.OpOverload):
            reason = _functionalised(target)
            yield _rule(DECOMPOSITION, str(target), "decompositions", function, unreachable=reason, dead=bool(reason))


def _lowered() -> Iterator[Rule]:
    for target, function in lowerings.items():
        if isinstance(target, torch._ops.OpOverload):
            reason = _functionalised(target)
            yield _rule(LOWERING, str(target), "lowerings", function, unreachable=reason, dead=bool(reason))


def _functionalised(target: Any) -> str:
    if any(argument.is_out for argument in target._schema.arguments):
        return "dead: variants that write into a given tensor are replaced before"
    return ""


def _freezing() -> Any:
    return importlib.import_module("torch._inductor.freezing")


# -- counting ----------------------------------------------------------------------------------------------------------


def watch(watcher: PassWatcher, signature: GraphSignature) -> None:
    """Report every rewrite to `watcher` from now on. Call it once per process: it wraps Inductor's own functions."""
    for name, kind in {**group_batch_fusion.PRE_GRAD_FUSIONS, **group_batch_fusion.POST_GRAD_FUSIONS}.items():
        kind.fuse = _watched_fusion(f"{FUSION}/{name}", kind.fuse, watcher, signature)
    for target, (condition, argument) in list(post_grad.noop_registry.items()):
        post_grad.noop_registry[target] = (_watched_condition(f"{NO_OP}/{target}", condition, watcher), argument)
    _watch_passes(watcher, signature)
    _watch_folding(watcher, signature)
    _watch_decompositions(watcher)
    _watch_lowerings(watcher)


def _watched_fusion(name: str, fuse: Any, watcher: PassWatcher, signature: GraphSignature) -> Any:
    @functools.wraps(fuse)
    def watched(self: Any, graph: Any, subset: Any) -> Any:
        if watcher.forbids(name):
            return None
        before = signature(graph)
        try:
            return fuse(self, graph, subset)
        finally:  # a rewrite that raises halfway counts too
            watcher.note(name, signature(graph) != before)

    return watched


def _watched_condition(name: str, condition: Any, watcher: PassWatcher) -> Any:
    """Wrap the condition of a removal. Inductor calls it last, so if it returns True, the operation is removed."""

    @functools.wraps(condition)
    def watched(*args: Any, **kwargs: Any) -> Any:
        answer = not watcher.forbids(name) and condition(*args, **kwargs)
        watcher.note(name, bool(answer))
        return answer

    return watched


def _watch_passes(watcher: PassWatcher, signature: GraphSignature) -> None:
    enter, leave = GraphTransformObserver.__enter__, GraphTransformObserver.__exit__
    disabled = GraphTransformObserver._check_disable_pass
    open_passes: dict[int, object] = {}

    def entered(self: Any) -> Any:
        open_passes[id(self)] = signature(self.gm.graph)
        return enter(self)

    def left(self: Any, *problem: Any) -> Any:
        before = open_passes.pop(id(self), None)
        watcher.note(f"{PASS}/{self.passname}", signature(self.gm.graph) != before)
        return leave(self, *problem)

    def switched_off(self: Any) -> Any:
        return watcher.forbids(f"{PASS}/{self.passname}") or disabled(self)

    GraphTransformObserver.__enter__, GraphTransformObserver.__exit__ = entered, left
    GraphTransformObserver._check_disable_pass = switched_off


def _watch_folding(watcher: PassWatcher, signature: GraphSignature) -> None:
    freezing, name = _freezing(), f"{PASS}/constant_fold"
    fold = freezing.constant_fold

    def folded(gm: Any, *args: Any, **kwargs: Any) -> Any:
        if watcher.forbids(name):
            return None
        before = signature(gm.graph)
        result = fold(gm, *args, **kwargs)
        watcher.note(name, signature(gm.graph) != before)
        return result

    freezing.constant_fold = folded


def _watch_decompositions(watcher: PassWatcher) -> None:
    compile_fx.select_decomp_table = _WatchedSelection(watcher, compile_fx.select_decomp_table)


class _WatchedSelection:
    """Wraps Inductor's selection of decompositions, so that each is watched."""

    def __init__(self, watcher: PassWatcher, select: Callable[[], dict[Any, Any]]) -> None:
        self._watcher, self._select = watcher, select
        self._wrapped: dict[Any, Any] = {}

    def __call__(self) -> dict[Any, Any]:
        table = self._select()
        for target, function in table.items():
            if (target, function) not in self._wrapped:
                self._wrapped[target, function] = self._watched(target, function)
        return {
            target: self._wrapped[target, function]
            for target, function in table.items()
            if not self._watcher.forbids(f"{DECOMPOSITION}/{target}")
        }

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Pickle as the wrapped object, since the keys of Inductor's caches are made of pickles."""
        return _itself, (self._select,)

    def _watched(self, target: Any, function: Any) -> Any:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self._watcher.note(f"{DECOMPOSITION}/{target}", result is not NotImplemented)
            return result

        return called


def _itself(function: Callable[[], dict[Any, Any]]) -> Callable[[], dict[Any, Any]]:
    return function


def _watch_lowerings(watcher: PassWatcher) -> None:
    call = GraphLowering.call_function

    @functools.wraps(call)
    def called(self: Any, target: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(target, torch._ops.OpOverload):
            return call(self, target, args, kwargs)
        name = f"{LOWERING}/{target}"
        if watcher.forbids(name):  # then torch's own kernel is called instead
            return fallback_handler(target, add_to_fallback_set=False)(*args, **kwargs)
        result = call(self, target, args, kwargs)
        watcher.note(name, True)
        return result

    GraphLowering.call_function = called
