"""A program under construction for a rule: an FX graph, and for each of its tensors how the program creates it.

Drafts are changed as graphs and tested as text: what is compiled is a file that a user could have written.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.fx as fx

from driftline.patterns.inductor.placing import placing
from driftline.programs.fx_text import program_text


@dataclass(frozen=True)
class DraftLeaf:
    """A tensor that the program takes as input or owns. `fill` says which numbers it holds, `layout` its memory
    layout."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    # normal, small (few small integers), zeros, ones, positive, indices:N, some:V (among others), or a Python literal
    fill: str = "normal"
    layout: str = "plain"  # plain, transposed (the last two dimensions), swapped (the first two), strided, expanded
    parameter: bool = False

    def text(self) -> str:
        """Return the Python expression that creates the tensor."""
        made = self._laid_out()
        return f"torch.nn.Parameter({made})" if self.parameter else made

    def _laid_out(self) -> str:
        if self.layout == "transposed" and len(self.shape) > 1:
            *first, rows, columns = self.shape
            return f"{self._numbers((*first, columns, rows))}.mT"
        if self.layout == "swapped" and len(self.shape) > 1:
            return f"{self._numbers((self.shape[1], self.shape[0], *self.shape[2:]))}.transpose(0, 1)"
        if self.layout == "strided" and self.shape:
            return f"{self._numbers((*self.shape[:-1], 2 * self.shape[-1]))}[..., ::2]"
        if self.layout == "expanded" and self.shape:
            return f"{self._numbers((1, *self.shape[1:]))}.expand({_sizes(self.shape)})"
        return self._numbers(self.shape)

    def _numbers(self, shape: tuple[int, ...]) -> str:
        dtype = "" if self.dtype is torch.float32 else f", dtype={self.dtype}"
        sizes = f"({_sizes(shape)}{',' * (len(shape) == 1)})"
        if self.fill in ("zeros", "ones"):
            return f"torch.{self.fill}({sizes}{dtype})"
        if self.fill.startswith("indices:"):
            return f"torch.randint(0, {self.fill[8:]}, {sizes}, dtype={self.dtype})"
        if self.fill.startswith("some:"):
            return f"torch.where(torch.rand({sizes}) < 0.2, {self.fill[5:]}, torch.randn({sizes}{dtype}))"
        if self.fill not in ("normal", "small", "positive"):
            return f"torch.full({sizes}, {self.fill}{dtype})"
        if self.dtype is torch.bool:
            return f"torch.rand({sizes}) > 0.5"
        if not (self.dtype.is_floating_point or self.dtype.is_complex):
            low, high = (0, 20) if self.dtype is torch.uint8 or self.fill == "positive" else (-5, 6)
            return f"torch.randint({low}, {high}, {sizes}, dtype={self.dtype})"
        if self.fill == "small":
            return f"torch.randint(-3, 4, {sizes}).to({self.dtype})"
        made = "rand" if self.fill == "positive" else "randn"
        offset = " + 0.5" if self.fill == "positive" else ""
        return f"torch.{made}({sizes}{dtype}){offset}"


def _sizes(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


@dataclass(frozen=True)
class Draft:
    """A graph with the tensors that it takes and owns. `owned` may also hold the text of a submodule."""

    graph: fx.Graph
    inputs: dict[str, DraftLeaf]
    owned: dict[str, DraftLeaf | str] = field(default_factory=dict)
    needs: tuple[tuple[str, str], ...] = ()  # options of the target
    training: bool = False  # the backward graph is compiled too
    user_level: bool = True  # written with the operators that people write
    producers: tuple[str, ...] = ()  # rules that must fire first: they make operators that users do not write

    def text(self) -> str:
        """Return the program as Python source."""
        owned = {name: leaf if isinstance(leaf, str) else leaf.text() for name, leaf in self.owned.items()}
        inputs = {name: leaf.text() for name, leaf in self.inputs.items()}
        return program_text(self.graph, inputs, owned, user_level=self.user_level)

    def copy(self) -> tuple[Draft, dict[fx.Node, fx.Node]]:
        """Return a copy that can be changed, and a mapping from the old nodes to the new ones."""
        graph = fx.Graph()
        places: dict[fx.Node, fx.Node] = {}
        result = graph.graph_copy(self.graph, places)
        graph.output(result)
        for old, new in places.items():
            new.meta = copy.copy(old.meta)
        return replace(self, graph=graph, inputs=dict(self.inputs), owned=dict(self.owned)), places


def live(text: str, seed: int = 0) -> tuple[Any, tuple[Any, ...]]:
    """Execute the text of a program and return its callable and example inputs."""
    space: dict[str, Any] = {"__name__": "draft"}
    exec(compile(text, "<draft>", "exec"), space)
    torch.manual_seed(seed)
    with placing():
        made: tuple[Any, tuple[Any, ...]] = space["program"]()
    return made
