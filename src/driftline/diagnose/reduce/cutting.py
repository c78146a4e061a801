"""Programs of fewer nodes. What a removed node computed is replaced in one of two ways:

- *cut*: it becomes an input that holds what the reference run computed there;
- *bypass*: it is replaced by one of its own operands of the same type, so that data still flows.

What nobody reads any more is either *exposed* (it becomes an output) or dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from driftline.diagnose.reduce.graph import Evaluated, Graph, Leaf, Node, without_dead_code


@dataclass(frozen=True)
class Mode:
    """How a set of nodes is turned into a program."""

    bypass: bool
    expose: bool


# In the order in which they are tried: values as they were first, then flow, then as few outputs as possible.
MODES = (Mode(bypass=False, expose=True), Mode(bypass=True, expose=True), Mode(bypass=True, expose=False))


def keep(base: Evaluated, wanted: Collection[int], mode: Mode) -> tuple[Graph, frozenset[int]] | None:
    """The program of the wanted nodes, and which of them are really in it; `None` when there is no such program."""
    kept = set(wanted)
    while True:
        cut = _Cut(base, kept, mode)
        try:
            return cut.graph()
        except _CannotGo as node:  # its result is not a tensor: it stays as long as somebody reads it
            kept.add(node.args[0])


class _CannotGo(Exception):
    pass


class _Cut:
    def __init__(self, base: Evaluated, kept: set[int], mode: Mode) -> None:
        self._base, self._kept, self._mode = base, kept, mode
        self._new: dict[int, Leaf] = {}

    def graph(self) -> tuple[Graph, frozenset[int]] | None:
        graph = self._base.graph
        nodes: dict[int, Node] = {}
        for at in sorted(self._kept):
            node = graph.nodes[at]
            nodes[at] = replace(node, inputs=tuple(None if n is None else self._resolved(n) for n in node.inputs))
        made = {number for node in nodes.values() for number in node.outputs}
        outputs = [number for number in (self._output(n) for n in graph.outputs) if number in made]
        if self._mode.expose:
            read = {number for node in nodes.values() for number in node.operands} | set(outputs)
            for node in nodes.values():
                if not node.free and not read & set(node.outputs):
                    outputs += [n for n in node.outputs if self._base.types.get(n)]
        outputs = [number for number in outputs if self._base.types.get(number)]
        if not outputs:
            return None
        small = without_dead_code((*graph.leaves, *self._new.values()), nodes.values(), outputs, graph.header)
        alive = {number for node in small.nodes for number in node.outputs}
        return small, frozenset(at for at, node in nodes.items() if alive & set(node.outputs) or node.effects)

    def _output(self, number: int) -> int:
        """An output that was made by a removed node is followed back, but never becomes an input."""
        graph = self._base.graph
        while number in graph.producers and graph.producers[number] not in self._kept:
            operand = self._operand(graph.nodes[graph.producers[number]], number) if self._mode.bypass else None
            if operand is None:
                return -1
            number = operand
        return number

    def _resolved(self, number: int) -> int:
        graph = self._base.graph
        if number in graph.leaf or graph.producers[number] in self._kept:
            return number
        node = graph.nodes[graph.producers[number]]
        if self._mode.bypass and (operand := self._operand(node, number)) is not None:
            return self._resolved(operand)
        leaf = self._base.as_leaf(number)
        if leaf is None:
            raise _CannotGo(graph.producers[number])
        self._new[number] = leaf
        return number

    def _operand(self, node: Node, number: int) -> int | None:
        """An operand of the same type as the node's result."""
        wanted = self._base.types.get(number)
        if wanted is None:
            return None
        return next((n for n in node.operands if wanted.fits(self._base.types.get(n))), None)


def replaced(graph: Graph, old: int, new: int | Leaf) -> Graph:
    """The program in which another value is read instead."""
    number = new.number if isinstance(new, Leaf) else new
    leaves = (*graph.leaves, new) if isinstance(new, Leaf) else graph.leaves

    def other(value: int | None) -> int | None:
        return number if value == old else value

    nodes = [replace(node, inputs=tuple(map(other, node.inputs))) for node in graph.nodes]
    outputs = [number if value == old else value for value in graph.outputs]
    made = {value for node in nodes for value in node.outputs}
    return without_dead_code(leaves, nodes, [value for value in outputs if value in made], graph.header)


def single_removals(base: Evaluated) -> Iterator[Graph]:
    """Every program with one operator less, by each way there is; the last operators first."""
    graph = base.graph
    everything = set(range(len(graph.nodes)))
    for at in reversed(range(len(graph.nodes))):
        if graph.nodes[at].free:
            continue
        for mode in MODES:
            made = keep(base, everything - {at}, mode)
            if made and made[0].outputs:
                yield made[0]
        yield from _other_operands(base, at)


def _other_operands(base: Evaluated, at: int) -> Iterator[Graph]:
    """A node replaced by an operand that is not the first of its type."""
    graph = base.graph
    for number in graph.nodes[at].outputs:
        wanted = base.types.get(number)
        fitting = [n for n in graph.nodes[at].operands if wanted and wanted.fits(base.types.get(n))]
        for operand in dict.fromkeys(fitting[1:]):
            small = replaced(graph, number, operand)
            if small.outputs and len(small.nodes) < len(graph.nodes):
                yield small


def fewer_ends(base: Evaluated) -> Iterator[Graph]:
    """Every program with one output less, or in which one input stands for another of the same type."""
    graph = base.graph
    for number in graph.outputs if len(graph.outputs) > 1 else ():
        kept = [other for other in graph.outputs if other != number]
        yield without_dead_code(graph.leaves, graph.nodes, kept, graph.header)
    for at, leaf in enumerate(graph.leaves):
        for other in graph.leaves[:at]:
            if leaf.type.fits(other.type):
                yield replaced(graph, leaf.number, other.number)
                break
    for leaf in graph.leaves:
        if leaf.constant:  # an input is plainer than a constant: it says that its value does not matter
            leaves = [replace(v, constant=False) if v is leaf else v for v in graph.leaves]
            yield replace(graph, leaves=tuple(leaves))
