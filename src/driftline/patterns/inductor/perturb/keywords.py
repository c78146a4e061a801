"""Mutants with keyword arguments that a pattern does not mention: the matcher checks only those it knows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch
import torch.fx as fx

from driftline.patterns.inductor.draft import Draft
from driftline.patterns.inductor.perturb.mutant import Mutant, calls, is_tensor, value_of, with_node
from driftline.patterns.inductor.perturb.signature import SchemaParameter, as_function, missing, name_of

_WORDS = {"rounding_mode": ["floor", "trunc"], "approximate": ["tanh"], "reduction": ["sum"], "reduce": ["amax"]}


def mutants(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    for node in calls(draft.graph):
        if node.op == "call_module":
            continue
        for parameter in missing(node):
            for value in _values(parameter, node):
                changed = with_node(draft, node, _set(parameter.name, value))
                yield Mutant(f"keyword {parameter.name} of {name_of(node)}", changed)


def _set(name: str, value: Any) -> Any:
    def change(node: fx.Node) -> None:
        function = as_function(node)
        if function is not None:
            node.target = function
        node.update_kwarg(name, value)

    return change


def _values(parameter: SchemaParameter, node: fx.Node) -> Iterator[Any]:
    name, kind, default = parameter.name, parameter.type, parameter.default
    if name in _WORDS:
        yield from (word for word in _WORDS[name] if word != default)
    elif kind == "ScalarType" or name == "dtype":
        own = value_of(node)
        held = own.dtype if isinstance(own, torch.Tensor) else None
        yield from (d for d in (torch.float64, torch.int32, torch.float16, torch.bool) if d is not held)
    elif kind == "bool":
        yield not default
    elif kind in ("int", "SymInt") or "dim" in name:
        rank = next((value_of(arg).dim() for arg in node.args if is_tensor(arg)), 1)
        candidates = (0, rank - 1) if "dim" in name else (2, 0)
        yield from (value for value in candidates if value != default)
    elif kind in ("number", "Scalar", "float"):
        yield from (value for value in (2, 0.5) if value != default)
