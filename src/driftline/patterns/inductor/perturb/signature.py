"""The parameters that a call could be given: those of all functions with the name of the called one."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import torch.fx as fx

_NAMES = {operator.truediv: "div", operator.floordiv: "floor_divide", operator.mod: "remainder"}
_HIDDEN = {"_softmax": "softmax", "_log_softmax": "log_softmax", "_unsafe_view": "view", "getitem": "select"}
_NOT_MEANING = frozenset("out generator device layout pin_memory memory_format non_blocking".split())


@dataclass(frozen=True)
class SchemaParameter:
    """One parameter that at least one variant of a function has."""

    name: str
    type: str  # as schemas say it, without `?`
    default: Any = None


def name_of(node: fx.Node) -> str:
    """Return the name by which users know the called function."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        name = target._schema.name.partition("::")[2]
    elif isinstance(target, str):
        name = target.partition(".")[0]
    else:
        name = _NAMES.get(target) or getattr(target, "__name__", str(target)).strip("_")
    return _HIDDEN.get(name, name)


def place_of(node: fx.Node, at: int | str) -> str:
    """Return the name of the argument at a position."""
    if isinstance(at, str):
        return at
    target = node.target
    if isinstance(target, torch._ops.OpOverload) and at < len(target._schema.arguments):
        return str(target._schema.arguments[at].name)
    for schema in _schemas(name_of(node)):
        if at < len(schema.arguments) and len(node.args) <= len(schema.arguments):
            return str(schema.arguments[at].name)
    return f"argument {at}"


def missing(node: fx.Node) -> list[SchemaParameter]:
    """Return the parameters that some variant of the function has and this call does not set."""
    given = {place_of(node, at) for at in range(len(node.args))} | set(node.kwargs)
    found: dict[str, SchemaParameter] = {}
    for schema in _schemas(name_of(node)):
        named = {argument.name for argument in schema.arguments}
        if not (given - {"input"}) <= named:
            continue
        for argument in schema.arguments:
            if argument.name in given or argument.name in _NOT_MEANING or argument.name in found:
                continue
            kind = str(argument.real_type)
            kind = kind[9:-1] if kind.startswith("Optional[") else kind
            if kind == "Tensor":
                continue
            default = argument.default_value if argument.has_default_value() else None
            found[argument.name] = SchemaParameter(argument.name, kind, default)
    return list(found.values())


def as_function(node: fx.Node) -> Any:
    """Return the torch function for a call of an operator such as `+`, which takes no keywords; None for other
    calls."""
    if node.op != "call_function" or getattr(node.target, "__module__", "") not in ("_operator", "operator"):
        return None
    return getattr(torch, name_of(node), None)


@lru_cache(1024)
def _schemas(name: str) -> tuple[Any, ...]:
    """Return the schemas of an operator for tensors, without variants that write into a given result."""
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return ()
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
    kept = [schema for schema in schemas if any("Tensor" in str(a.real_type) for a in schema.arguments)]
    return tuple(schema for schema in kept if not any(a.is_out for a in schema.arguments)) or tuple(schemas)
