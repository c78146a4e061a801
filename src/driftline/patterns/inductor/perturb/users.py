"""Mutants in which another operator reads an intermediate value that a rule removes: it is also returned, or computed
with."""

from __future__ import annotations

import random
from collections.abc import Iterator

import torch
import torch.fx as fx

from driftline.patterns.inductor.draft import Draft
from driftline.patterns.inductor.perturb.mutant import Mutant, calls, is_tensor
from driftline.patterns.inductor.perturb.signature import name_of


def returned(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants that also return an intermediate value."""
    for node in _inner(draft):
        copied, places = draft.copy()
        _also_return(copied.graph, places[node])
        yield Mutant(f"extra user of {name_of(node)}", copied)


def computed_with(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants that also compute something from an intermediate value and return it."""
    for node in _inner(draft):
        copied, places = draft.copy()
        with copied.graph.inserting_after(places[node]):
            function = torch.neg if node.meta["val"].dtype is not torch.bool else torch.logical_not
            extra = copied.graph.call_function(function, (places[node],))
        _also_return(copied.graph, extra)
        yield Mutant(f"extra reader of {name_of(node)}", copied)


def _inner(draft: Draft) -> list[fx.Node]:
    """Return the values that are not yet returned, last ones first, since these are nearest to the rule's result."""
    output = next(node for node in draft.graph.nodes if node.op == "output")
    return [node for node in reversed(calls(draft.graph)) if is_tensor(node) and output not in node.users]


def _also_return(graph: fx.Graph, node: fx.Node) -> None:
    output = next(node for node in graph.nodes if node.op == "output")
    results = output.args[0]
    output.args = ((*results, node) if isinstance(results, (tuple, list)) else (results, node),)
