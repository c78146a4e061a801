"""Helpers to write a block for every language at once: operators of the table, applied to values explicitly.

Attributes and further inputs that are not given are drawn by the operator's own rule. The result is a `Graph`, like
those of random programs, and is emitted, mutated and reduced like them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from driftline.generate.base import NoProgram
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.generate.operator import Draw, Invalid, Need
from driftline.generate.table import OPERATORS

_TRIES = 20


@dataclass(frozen=True)
class _Made:
    """A value under construction: a leaf, or a result of a node."""

    type: TensorType
    leaf: Leaf | None = None


@dataclass
class GraphSketch:
    """A graph under construction. Values are numbered in the order in which they are created."""

    language: str
    draw: Draw
    dtype: str  # of the floats in it
    sizes: Callable[[], int]  # one size, such as a width
    values: list[_Made] = field(default_factory=list)
    nodes: list[tuple[str, tuple[int, ...], tuple[TensorType, ...], dict[str, Any]]] = field(default_factory=list)

    def input(self, *shape: int, dtype: str = "", values: str = "any") -> int:
        return self._leaf("input", Need(TensorType(dtype or self.dtype, shape), values))

    def weights(self, *shape: int) -> int:
        return self._leaf("parameter", Need(TensorType(self.dtype, shape)))

    def constant(self, *shape: int, dtype: str = "", values: str = "any") -> int:
        return self._leaf("constant", Need(TensorType(dtype or self.dtype, shape), values))

    def shape(self, value: int) -> tuple[int, ...]:
        return self.values[value].type.shape

    def apply(self, name: str, *inputs: int, **attributes: Any) -> int:
        """Apply an operator and return its first result. If one input is given, the operator's further inputs are drawn
        as new leaves."""
        return self.apply_all(name, *inputs, **attributes)[0]

    def apply_all(self, name: str, *inputs: int, **attributes: Any) -> list[int]:
        """Apply an operator and return all its results. Raises `NoProgram` if it does not accept the inputs."""
        operator, types = OPERATORS[name], [self.values[number].type for number in inputs]
        if not operator.takes(self.language, types[0]):
            raise NoProgram(f"{name} of {types[0]} has no form in {self.language}")
        for _ in range(_TRIES):
            try:
                needs, drawn = operator.draw(self.draw, types[0])
                more = needs if len(inputs) == 1 else ()
                known = {**drawn, **attributes}
                results = tuple(operator.infer([*types, *(need.type for need in more)], known))
            except Invalid:
                continue
            leaves = [self._leaf("parameter" if need.prefer == "parameter" else "input", need) for need in more]
            first = len(self.values)
            self.values += [_Made(kind) for kind in results]
            self.nodes.append((name, (*inputs, *leaves), results, known))
            return list(range(first, first + len(results)))
        raise NoProgram(f"{name} does not fit {', '.join(map(str, types))}")

    def either(self, *names: str) -> str:
        return self.draw.choice(names)

    def _leaf(self, kind: str, need: Need) -> int:
        leaf = Leaf(kind, need.type, need.values, seed=self.draw.integer(0, 999))
        self.values.append(_Made(need.type, leaf))
        return len(self.values) - 1

    def graph(self, outputs: list[int], *, grad: bool = False) -> Graph:
        """Return the finished graph, renumbered with the leaves first."""
        leaves = [number for number, made in enumerate(self.values) if made.leaf]
        results = [number for number, made in enumerate(self.values) if not made.leaf]
        new = {old: at for at, old in enumerate([*leaves, *results])}
        nodes = tuple(
            Node(name, tuple(new[number] for number in inputs), types, attributes)
            for name, inputs, types, attributes in self.nodes
        )
        made = tuple(leaf for number in leaves if (leaf := self.values[number].leaf))
        return Graph(made, nodes, tuple(dict.fromkeys(new[number] for number in outputs)), grad).without_unused_leaves()


BlockRule = Callable[[GraphSketch], "int | list[int]"]
BLOCKS: dict[str, BlockRule] = {}


def block(function: BlockRule) -> BlockRule:
    """Register a function under its own name. It draws a program on the sketch and returns the numbers of the
    outputs."""
    BLOCKS[function.__name__] = function
    return function
