"""A program with one thing changed, and the tools for changing it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.fx as fx

from driftline.patterns.inductor.draft import Draft, DraftLeaf


@dataclass(frozen=True)
class Mutant:
    """`label` says what was changed, in words that are the same from run to run; a rule that gets it wrong has one bug.
    `where` tells apart those with one label: in which tensor, to which size or dtype."""

    label: str
    draft: Draft
    where: str = ""
    dynamic: bool = False  # compiled for any sizes
    only_numbers: bool = False  # the program is the same, the numbers in its tensors are others

    @property
    def spot(self) -> str:
        return f"{self.label} ({self.where})" if self.where else self.label


Mutator = Callable[[Draft, random.Random], Iterator[Mutant]]


def calls(graph: fx.Graph) -> list[fx.Node]:
    """The nodes that compute something."""
    return [node for node in graph.nodes if node.op in ("call_function", "call_method", "call_module")]


def value_of(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, fx.Node) else None


def is_tensor(node: Any) -> bool:
    return isinstance(value_of(node), torch.Tensor)


def with_node(draft: Draft, node: fx.Node, change: Callable[[fx.Node], None]) -> Draft:
    """A copy of the draft in which one node is changed."""
    copied, places = draft.copy()
    change(places[node])
    return copied


def with_argument(draft: Draft, node: fx.Node, at: int | str, value: Any) -> Draft:
    """A copy in which one argument, by position or by name, is another. Nodes in `value` are those of the draft."""
    copied, places = draft.copy()
    changed = places[node]
    value = fx.node.map_arg(value, lambda inner: places.get(inner, inner))
    if isinstance(at, int):
        changed.update_arg(at, value)
    else:
        changed.update_kwarg(at, value)
    return copied


def with_leaves(draft: Draft, change: Callable[[str, DraftLeaf], DraftLeaf]) -> Draft:
    """A copy in which tensors of the program's own or its inputs are others."""
    return replace(
        draft,
        inputs={name: change(name, leaf) for name, leaf in draft.inputs.items()},
        owned={n: leaf if isinstance(leaf, str) else change(n, leaf) for n, leaf in draft.owned.items()},
    )


def leaves(draft: Draft) -> dict[str, DraftLeaf]:
    """All tensors that are given or owned."""
    return {**draft.inputs, **{name: leaf for name, leaf in draft.owned.items() if isinstance(leaf, DraftLeaf)}}


def add_input(draft: Draft, name: str, leaf: DraftLeaf) -> tuple[Draft, dict[fx.Node, fx.Node], fx.Node]:
    """A copy with one more input, after those that are there."""
    copied, places = draft.copy()
    last = [node for node in copied.graph.nodes if node.op in ("placeholder", "get_attr")]
    given = [node for node in last if node.op == "placeholder"]
    first = next(iter(copied.graph.nodes))
    with copied.graph.inserting_after(given[-1]) if given else copied.graph.inserting_before(first):
        node = copied.graph.placeholder(name)
    copied.inputs[node.name] = leaf
    return copied, places, node
