"""The graph of a program under construction. Nodes are added one by one, each with its value computed without data."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
import torch.fx as fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.shape_prop import _extract_tensor_metadata

from driftline.patterns.inductor.draft import DraftLeaf
from driftline.patterns.inductor.invert.wish import NotBuilt, Wish
from driftline.patterns.inductor.placing import placing

_LARGEST = 1 << 21
T = TypeVar("T")


class Bench:
    """A graph under construction. Attempt 0 always takes the first choice; later attempts choose at random, seeded by
    their number."""

    def __init__(self, name: str, attempt: int, dtype: torch.dtype) -> None:
        self.attempt = attempt
        self.random = random.Random(hashlib.sha256(f"{name} {attempt}".encode()).digest())
        self.dtype = dtype
        self.graph = fx.Graph()
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.inputs: dict[str, DraftLeaf] = {}
        self.owned: dict[str, DraftLeaf | str] = {}
        self._last_leaf: fx.Node | None = None

    def choose(self, *options: T) -> T:
        """Choose one of the options: the first in attempt 0, else a random one."""
        return options[0] if self.attempt == 0 else self.random.choice(options)

    def leaf(self, wish: Wish) -> fx.Node:
        """Add an input of the program, or a tensor that its module owns if the wish asks for a constant."""
        shape, dtype = wish.shape or (), wish.dtype or self.dtype
        if math.prod(shape) > _LARGEST:
            raise NotBuilt("a tensor would be too large")
        leaf = DraftLeaf(tuple(shape), dtype, wish.fill)
        with self.fake, placing():
            value = torch.empty(shape, dtype=dtype)
        if wish.constant:
            name = f"w{len(self.owned)}"
            self.owned[name] = leaf
            node = self._before_all(lambda: self.graph.create_node("get_attr", name, name=name))
        else:
            name = f"x{len(self.inputs)}"
            node = self._before_all(lambda: self.graph.placeholder(name))
            self.inputs[node.name] = leaf
        return valued(node, value)

    def module(self, text: str, argument: fx.Node, value: torch.Tensor) -> fx.Node:
        """Add a call of a submodule, whose Python source is `text`."""
        name = f"m{len(self.owned)}"
        self.owned[name] = text
        return valued(self.graph.call_module(name, (argument,)), value)

    def _before_all(self, make: Callable[[], fx.Node]) -> fx.Node:
        """Insert a leaf before all other nodes, after the leaves that were added earlier."""
        first = next(iter(self.graph.nodes), None)
        if self._last_leaf is not None:
            with self.graph.inserting_after(self._last_leaf):
                self._last_leaf = make()
        elif first is not None:
            with self.graph.inserting_before(first):
                self._last_leaf = make()
        else:
            self._last_leaf = make()
        return self._last_leaf

    def call(self, op: str, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> fx.Node:
        """Add a call and compute its value. Raises NotBuilt if the operator rejects the arguments."""
        given = fx.node.map_arg((tuple(args), dict(kwargs)), lambda node: node.meta["val"])
        try:
            with self.fake, torch.no_grad():
                if op == "call_method":
                    value = getattr(given[0][0], target)(*given[0][1:], **given[1])
                else:
                    value = target(*given[0], **given[1])
        except Exception as error:
            told = str(error).strip().partition("\n")[0][:160]
            raise NotBuilt(f"{target} refuses what was found for it: {type(error).__name__}: {told}") from None
        return valued(self.graph.create_node(op, target, tuple(args), dict(kwargs)), value)


def valued(node: fx.Node, value: Any) -> fx.Node:
    """Store the value in the node where the passes look for it, and return the node."""
    node.meta["val"] = node.meta["example_value"] = value
    if isinstance(value, torch.Tensor):
        node.meta["tensor_meta"] = _extract_tensor_metadata(value)
    return node


def value_of(thing: Any) -> Any:
    """Return the value of a node; anything else is returned unchanged."""
    return thing.meta["val"] if isinstance(thing, fx.Node) else thing
