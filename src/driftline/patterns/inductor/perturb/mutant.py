"""A program with one change, and the functions to make such changes."""

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
    """A changed program. `label` describes the change in words that are stable from run to run: failures of a rule with
    the same label are one bug. `where` distinguishes mutants with the same label: which tensor, size or dtype."""

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
    """Return the nodes that compute something."""
    return [node for node in graph.nodes if node.op in ("call_function", "call_method", "call_module")]


def value_of(node: Any) -> Any:
    """Return the value of a node; None if there is none."""
    return node.meta.get("val") if isinstance(node, fx.Node) else None


def is_tensor(node: Any) -> bool:
    return isinstance(value_of(node), torch.Tensor)


def with_node(draft: Draft, node: fx.Node, change: Callable[[fx.Node], None]) -> Draft:
    """Return a copy of the draft in which `change` was applied to one node."""
    copied, places = draft.copy()
    change(places[node])
    return copied


def with_argument(draft: Draft, node: fx.Node, at: int | str, value: Any) -> Draft:
    """Return a copy in which one argument, by position or name, is `value`. Nodes in `value` are nodes of the original
    draft."""
    copied, places = draft.copy()
    changed = places[node]
    value = fx.node.map_arg(value, lambda inner: places.get(inner, inner))
    if isinstance(at, int):
        changed.update_arg(at, value)
    else:
        changed.update_kwarg(at, value)
    return copied


def with_leaves(draft: Draft, change: Callable[[str, DraftLeaf], DraftLeaf]) -> Draft:
    """Return a copy in which `change` was applied to all input and owned tensors."""
    return replace(
        draft,
        inputs={name: change(name, leaf) for name, leaf in draft.inputs.items()},
        owned={n: leaf if isinstance(leaf, str) else change(n, leaf) for n, leaf in draft.owned.items()},
    )


def leaves(draft: Draft) -> dict[str, DraftLeaf]:
    """Return all input and owned tensors by name."""
    return {**draft.inputs, **{name: leaf for name, leaf in draft.owned.items() if isinstance(leaf, DraftLeaf)}}


def add_input(draft: Draft, name: str, leaf: DraftLeaf) -> tuple[Draft, dict[fx.Node, fx.Node], fx.Node]:
    """Return a copy with one more input after the existing ones, the mapping of old to new nodes, and the input's
    node."""
    copied, places = draft.copy()
    last = [node for node in copied.graph.nodes if node.op in ("placeholder", "get_attr")]
    given = [node for node in last if node.op == "placeholder"]
    first = next(iter(copied.graph.nodes))
    with copied.graph.inserting_after(given[-1]) if given else copied.graph.inserting_before(first):
        node = copied.graph.placeholder(name)
    copied.inputs[node.name] = leaf
    return copied, places, node
