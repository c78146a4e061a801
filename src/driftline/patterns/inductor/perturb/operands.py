"""Mutants with other kinds of operands: a number for a tensor, a tensor for a number, the same tensor twice."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import torch
import torch.fx as fx

from driftline.patterns.inductor.draft import Draft, DraftLeaf
from driftline.patterns.inductor.perturb.mutant import (
    Mutant,
    add_input,
    calls,
    is_tensor,
    leaves,
    value_of,
    with_argument,
    with_node,
)
from driftline.patterns.inductor.perturb.signature import name_of, place_of

_PAIRS = frozenset("add sub mul div pow remainder maximum minimum where eq ne lt le gt ge masked_fill full".split())


def tensors_for_numbers(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants with a tensor, without dimensions or of one element, in place of a number."""
    for node in calls(draft.graph):
        for at, old in [*enumerate(node.args), *node.kwargs.items()]:
            if type(old) is not float and not (type(old) is int and name_of(node) in _PAIRS):
                continue
            for shape in ((), (1,)):
                leaf = DraftLeaf(shape, torch.float32 if type(old) is float else torch.int64, fill=repr(old))
                copied, places, given = add_input(draft, "number", leaf)
                if isinstance(at, int):
                    places[node].update_arg(at, given)
                else:
                    places[node].update_kwarg(at, given)
                kind = "tensor without dimensions" if not shape else "tensor of one element"
                yield Mutant(f"{kind} for {place_of(node, at)} of {name_of(node)}", copied)


def numbers_for_tensors(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants with a number in place of a tensor operand."""
    for node in calls(draft.graph):
        if name_of(node) not in _PAIRS:
            continue
        for at, old in enumerate(node.args):
            if not is_tensor(old) or sum(map(is_tensor, node.args)) < 2:
                continue
            number = 2.0 if value_of(old).dtype.is_floating_point else 2
            label = f"number for {place_of(node, at)} of {name_of(node)}"
            yield Mutant(label, _swept(with_argument(draft, node, at, number)))


def numbers_of_another_type(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants with a float in place of an integer, or the reverse."""
    for node in calls(draft.graph):
        for at, old in [*enumerate(node.args), *node.kwargs.items()]:
            if type(old) is float or (type(old) is int and name_of(node) in _PAIRS):
                new = math.trunc(old) if type(old) is float and 1 <= abs(old) < math.inf else old + 0.5
                label = f"type of the number {place_of(node, at)} of {name_of(node)}"
                yield Mutant(label, with_argument(draft, node, at, new))


def swapped(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants with the first two operands swapped. An operator that commutes for the compiler may not commute
    for the code around it."""
    for node in calls(draft.graph):
        pair = node.args[:2]
        if name_of(node) in _PAIRS and len(pair) == 2 and any(isinstance(one, fx.Node) for one in pair):
            yield Mutant(f"operands of {name_of(node)} swapped", with_node(draft, node, _swap))


def _swap(node: fx.Node) -> None:
    if node.op == "call_method":  # which a number does not have
        node.op, node.target = "call_function", getattr(torch, str(node.target))
    first, second, *rest = node.args
    node.args = (second, first, *rest)


def the_same_twice(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants with one tensor in place of two of the same shape and dtype."""
    for first, second in combinations(leaves(draft).items(), 2):
        if (first[1].shape, first[1].dtype) == (second[1].shape, second[1].dtype):
            copied, _ = draft.copy()
            by_name = {_leaf_name(node): node for node in copied.graph.nodes if node.op in ("placeholder", "get_attr")}
            by_name[second[0]].replace_all_uses_with(by_name[first[0]])
            yield Mutant("the same tensor twice", _swept(copied), where=f"{first[0]} and {second[0]}")


def _leaf_name(node: fx.Node) -> str:
    return node.name if node.op == "placeholder" else str(node.target)


def _swept(draft: Draft) -> Draft:
    """Return the draft without inputs, owned tensors and calls that nothing uses."""
    for node in reversed(list(draft.graph.nodes)):
        if node.op != "output" and not node.users:
            draft.graph.erase_node(node)
    names = {_leaf_name(node) for node in draft.graph.nodes}
    modules = {str(node.target) for node in draft.graph.nodes if node.op == "call_module"}
    return replace(
        draft,
        inputs={name: leaf for name, leaf in draft.inputs.items() if name in names},
        owned={n: leaf for n, leaf in draft.owned.items() if n in names or n.partition(".")[0] in modules},
    )
