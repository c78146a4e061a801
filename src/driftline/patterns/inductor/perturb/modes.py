"""Mutants that are compiled differently: for dynamic sizes, for training, or with inputs owned by the module."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import torch.fx as fx

from driftline.patterns.inductor.draft import Draft, DraftLeaf
from driftline.patterns.inductor.perturb.mutant import Mutant

UNCHANGED = "nothing changed"


def as_it_is(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    yield Mutant(UNCHANGED, draft)


def dynamic(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield the program compiled for symbolic sizes."""
    yield Mutant("symbolic sizes", draft, dynamic=True)


def training(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield the program compiled for training, or for inference if the draft is for training."""
    if any(leaf.dtype.is_floating_point for leaf in draft.inputs.values()):
        yield Mutant("inference" if draft.training else "training", replace(draft, training=not draft.training))


def held(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants in which the module owns an input, or takes an owned tensor as an input."""
    for name, leaf in draft.inputs.items():
        if len(draft.inputs) > 1:
            yield Mutant("an input held by the module", _hold(draft, name, leaf), where=name)
    for name, owned in draft.owned.items():
        if isinstance(owned, DraftLeaf):
            yield Mutant("a weight given as an input", _give(draft, name, owned), where=name)


def _hold(draft: Draft, name: str, leaf: DraftLeaf) -> Draft:
    copied, _ = draft.copy()
    old = next(node for node in copied.graph.nodes if node.op == "placeholder" and node.name == name)
    _exchange(copied.graph, old, "get_attr", f"held_{name}")
    del copied.inputs[name]
    copied.owned[f"held_{name}"] = leaf
    return copied


def _give(draft: Draft, name: str, leaf: DraftLeaf) -> Draft:
    copied, _ = draft.copy()
    old = [node for node in copied.graph.nodes if node.op == "get_attr" and node.target == name]
    for node in old:
        new = _exchange(copied.graph, node, "placeholder", f"given_{name}")
        copied.inputs[new.name] = replace(leaf, parameter=False)
    del copied.owned[name]
    return copied


def _exchange(graph: fx.Graph, old: fx.Node, op: str, target: str) -> fx.Node:
    first = next(iter(graph.nodes))
    with graph.inserting_before(first if op == "placeholder" else old):
        new = graph.create_node(op, target)
    new.meta = dict(old.meta)
    old.replace_all_uses_with(new)
    graph.erase_node(old)
    return new
