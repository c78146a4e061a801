"""Slices: one element of one node of a traced program, as a scalar expression of the values that it is computed from.

Elements are followed backwards. Views are followed by running them on the element numbers. Where an operator has no
rule, or too many terms, the slice is cut: the element becomes a variable, like the elements of inputs. Long rows are
tied: their elements repeat the first few along the last axis, so that there are few variables.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from driftline.inputs.symbolic.formats import FORMATS, Format
from driftline.inputs.symbolic.graph import ExprNode, apply, constant, in_order, variable
from driftline.inputs.symbolic.traced import TracedProgram

WIDTH = 4  # different values in a tied row
FEW = 8  # variables up to which nothing is tied
TERMS = 64  # longest dot product with an input that is still followed
LARGEST_TENSOR = 1 << 22
_SIZE = 1500  # scalar operations after which everything is cut

ElementRule = Callable[["Slicer", Any, int], ExprNode]


class NoRule(Exception):
    """Raised by a rule that cannot follow an element further."""


@dataclass(frozen=True)
class SlicePlace:
    """Elements of a node's result, by their flat indices, that share one variable."""

    node: str
    elements: tuple[int, ...]


@dataclass(frozen=True)
class Slice:
    """`root` is element `at` of `node`; `places` says which elements each variable stands for."""

    node: str
    at: int
    root: ExprNode
    places: Mapping[str, SlicePlace]
    critical: tuple[tuple[str, int], ...] = ()  # the elements that the node itself reads

    @property
    def signature(self) -> str:
        """A hash that is equal for slices with the same expression of different variables."""
        order = in_order([self.root])
        number = {node: at for at, node in enumerate(order)}
        rows = [(n.op, [number[a] for a in n.args], n.form and n.form.name, n.value) for n in order]
        return hashlib.sha256(repr(rows).encode()).hexdigest()


def values_of(traced: TracedProgram, tensors: Sequence[torch.Tensor]) -> dict[Any, Any]:
    """Return every node's result on these inputs."""
    found: dict[Any, Any] = {}

    class Recording(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: Any) -> Any:
            """Return the node's format. Raises NoRule if it is not a float."""
            found[n] = super().run_node(n)
            return found[n]

    with torch.no_grad():
        Recording(traced.module, garbage_collect_values=False).run(*tensors)
    return found


class Slicer:
    """Makes slices of one program. Elements that were already followed are cached for the current slice."""

    def __init__(
        self,
        traced: TracedProgram,
        values: Mapping[Any, Any],
        rules: Mapping[str, ElementRule],
        *,
        tied: bool = False,
        short: bool = False,
    ) -> None:
        """`rules` are the functions that follow an element of an operator's result, by operator name."""
        self._rules = rules
        self.traced, self.values, self.tied = traced, values, tied
        self.short = short  # cut at sums of many terms too
        self._known: dict[tuple[Any, int], ExprNode] = {}
        self._places: dict[str, dict[int, None]] = {}
        self._owner: dict[str, str] = {}
        self._sources: dict[Any, list[tuple[Any, Any]]] = {}
        self._made = 0
        self.varying = _varying(traced)

    def slice(self, node: Any, at: int) -> Slice:
        """Return the slice of element `at` of a node."""
        self._known, self._places, self._made = {}, {}, 0
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, 20_000))
        try:
            root = self.element(node, at, first=True)
        finally:
            sys.setrecursionlimit(before)
        used = {n.name for n in in_order([root]) if n.op == "variable"}
        places = {name: SlicePlace(self._owner[name], tuple(self._places[name])) for name in used}
        return Slice(node.name, at, root, places, self._critical(node, at))

    def element(self, node: Any, at: int, *, first: bool = False) -> ExprNode:
        """Return the scalar expression of an element."""
        key = (node, at)
        if key not in self._known:
            self._made += 1
            self._known[key] = self._follow(node, at, first=first)
        return self._known[key]

    def _follow(self, node: Any, at: int, *, first: bool) -> ExprNode:
        if node not in self.varying:
            return self.known(node, at)
        rule = self._rules.get(str(node.target).removeprefix("aten.")) if node.op == "call_function" else None
        if node.op == "call_function" and node.target.__name__ == "getitem":
            rule = self._rules["getitem"]
        if rule is not None and (first or self._made < _SIZE):
            try:
                return rule(self, node, at)
            except NoRule:
                pass
        return self._leaf(node, at)

    def known(self, node: Any, at: int) -> ExprNode:
        """Return the element's value on the example as a constant, for constants of the program and integers."""
        value = self.values[node].detach().reshape(-1)[at]
        if value.dtype == torch.bool:
            zero = constant(0.0, FORMATS["float32"])
            return apply("eq" if bool(value) else "ne", zero, zero)
        name = str(value.dtype).removeprefix("torch.")
        return constant(float(value), FORMATS.get(name, FORMATS["float32"]))

    def form(self, node: Any) -> Format:
        name = str(self.values[node].dtype).removeprefix("torch.")
        if name not in FORMATS:
            raise NoRule
        return FORMATS[name]

    def _leaf(self, node: Any, at: int) -> ExprNode:
        value = self.values[node]
        if not isinstance(value, torch.Tensor):
            raise NoRule
        name = str(value.dtype).removeprefix("torch.")
        if name not in FORMATS:
            return self.known(node, at)
        stands = at
        if self.tied and value.ndim and value.shape[-1] > WIDTH:
            row, column = divmod(at, value.shape[-1])
            stands = row * value.shape[-1] + column % WIDTH
        called = f"{node.name}[{stands}]"
        self._places.setdefault(called, {})[at] = None
        self._owner[called] = node.name
        return variable(called, FORMATS[name])

    def _critical(self, node: Any, at: int) -> tuple[tuple[str, int], ...]:
        """Return the elements that a pointwise operator reads, last operand first (such as the divisor)."""
        found = []
        shape = tuple(self.values[node].shape)
        for arg in reversed(node.args):
            if isinstance(arg, torch.fx.Node) and arg in self.varying:
                value = self.values[arg]
                if isinstance(value, torch.Tensor) and value.is_floating_point() and _fits(value.shape, shape):
                    found.append((arg.name, broadcast(tuple(value.shape), shape, at)))
        return tuple(found)

    def sources(self, node: Any) -> list[tuple[Any, Any]]:
        """For a view, return pairs of an operand and the number of its first element, then (None, the view's result on
        element numbers)."""
        if node not in self._sources:
            operands = [n for n in node.all_input_nodes if self.values[n].is_floating_point() or n in self.varying]
            if sum(self.values[n].numel() for n in operands) > LARGEST_TENSOR:
                raise NoRule
            numbered: dict[Any, Any] = {}
            start = 0
            for operand in operands:
                shape = self.values[operand].shape
                numbered[operand] = torch.arange(start, start + shape.numel()).reshape(shape)
                start += shape.numel()
            args = torch.fx.map_arg(node.args, lambda n: numbered.get(n, self.values[n]))
            kwargs = {k: v for k, v in node.kwargs.items() if k not in ("dtype", "memory_format", "layout", "device")}
            result = node.target(*args, **kwargs)
            self._sources[node] = [(operand, numbered[operand].reshape(-1)[:1]) for operand in operands]
            self._sources[node].append((None, result))
        return self._sources[node]

    def source(self, node: Any, at: int, part: int | None = None) -> ExprNode:
        """Return the expression of the element that a view shows."""
        *operands, (_, result) = self.sources(node)
        number = int((result if part is None else result[part]).reshape(-1)[at])
        for operand, begin in reversed(operands):
            if begin.numel() and number >= int(begin[0]):
                return self.element(operand, number - int(begin[0]))
        raise NoRule


def broadcast(shape: Sequence[int], into: Sequence[int], at: int) -> int:
    """Return the index of the operand's element that is broadcast to element `at` of the result."""
    if not shape:
        return 0
    places = np.unravel_index(at, tuple(into)) if into else ()
    own = places[len(into) - len(shape) :]
    return int(np.ravel_multi_index([p if size > 1 else 0 for p, size in zip(own, shape, strict=True)], tuple(shape)))


def _fits(shape: Sequence[int], into: Sequence[int]) -> bool:
    pairs = zip(reversed(tuple(shape)), reversed(tuple(into)), strict=False)
    return len(shape) <= len(into) and all(a in (1, b) for a, b in pairs)


def _varying(traced: TracedProgram) -> set[Any]:
    """Return the nodes that depend on the inputs."""
    found: set[Any] = set()
    for node in traced.nodes:
        if node.op == "placeholder" or (node.op == "call_function" and found.intersection(node.all_input_nodes)):
            found.add(node)
    return found
