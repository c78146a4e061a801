"""Folds layers that repeat: a transformer of twelve equal blocks is drawn as one block and eleven boxes.

Nodes are in the order of computation, so equal layers are equal stretches of nodes, one right after another. Of all
repeated stretches, the one that folds most nodes is chosen; if it may begin at several nodes, it begins where the
fewest values pass from one layer to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from driftline.core.tensors import Array
from driftline.core.text import plural
from driftline.inductor.graph_text import PrintedGraph, PrintedNode

_SHORTEST, _FEWEST, _MOST = 8, 24, 48  # nodes of a layer, nodes that are folded, layers


@dataclass(frozen=True)
class FoldedGraph:
    """A graph with one box for each repeated layer; `members` are the nodes behind each box."""

    graph: PrintedGraph
    members: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class _Repeat:
    start: int
    period: int
    count: int

    @property
    def folded(self) -> int:
        return (self.count - 1) * self.period


def fold(graph: PrintedGraph, kernels: Mapping[str, Sequence[int]] | None = None) -> FoldedGraph | None:
    """Return the folded graph, or `None` if too little repeats."""
    repeat = _best_repeat(graph.nodes)
    if repeat is None:
        return None
    members: dict[str, tuple[str, ...]] = {}
    box_of: dict[str, str] = {}
    for at in range(1, repeat.count):
        begin = repeat.start + at * repeat.period
        names = tuple(node.name for node in graph.nodes[begin : begin + repeat.period])
        members[f"layer {at + 1} of {repeat.count}"] = names
        box_of |= dict.fromkeys(names, f"layer {at + 1} of {repeat.count}")
    inputs = {node.name for node in graph.inputs}
    nodes: dict[str, PrintedNode] = {}
    for node in graph.nodes:
        box = box_of.get(node.name)
        if box is None:
            args = dict.fromkeys(box_of.get(arg, arg) for arg in node.args)
            nodes[node.name] = PrintedNode(node.name, node.op, node.dtype, node.shape, tuple(args), node.source)
        elif box not in nodes:
            nodes[box] = _box(box, members[box], graph, box_of, inputs, kernels or {})
    outputs = tuple(dict.fromkeys(box_of.get(name, name) for name in graph.outputs))
    return FoldedGraph(PrintedGraph(graph.inputs, tuple(nodes.values()), outputs), members)


def _box(
    box: str, names: Sequence[str], graph: PrintedGraph, box_of: Mapping[str, str], inputs: set[str],
    kernels: Mapping[str, Sequence[int]],
) -> PrintedNode:  # fmt: skip
    """Return one layer as a node. Its weights are left out: every layer has equally many."""
    own = set(names)
    args: dict[str, None] = {}
    for node in graph.nodes:
        if node.name in own:
            args |= dict.fromkeys(box_of.get(arg, arg) for arg in node.args if arg not in own and arg not in inputs)
    numbers = {number for name in names for number in kernels.get(name, ())}
    told = f", {plural(len(numbers), 'kernel')}" if numbers else ""
    return PrintedNode(box, box, f"{plural(len(names), 'node')}{told}", None, tuple(args))


def _best_repeat(nodes: Sequence[PrintedNode]) -> _Repeat | None:
    numbers: dict[object, int] = {}
    kinds = ((node.op, node.type, len(node.args)) for node in nodes)
    labels = np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], dtype=np.int64)
    best: _Repeat | None = None
    slack = 0
    for period in range(_SHORTEST, len(labels) // 2 + 1):
        for start, length in _runs(labels, period):
            count = min(length // period + 1, _MOST)
            found = _Repeat(start, period, count)
            if count > 1 and found.folded >= max(_FEWEST, best.folded + 1 if best else 0):
                best, slack = found, length - (count - 1) * period
    if best is None:
        return None
    shifts = range(min(slack, best.period - 1) + 1)
    return min(
        (_Repeat(best.start + shift, best.period, best.count) for shift in shifts),
        key=lambda one: _passed_on(nodes, one),
    )


def _runs(labels: Array, period: int) -> list[tuple[int, int]]:
    """Return the start and length of each run of nodes that equal the node one period later."""
    same = (labels[:-period] == labels[period:]).astype(np.int8)
    turns = np.flatnonzero(np.diff(same, prepend=0, append=0))
    return list(zip(turns[::2].tolist(), (turns[1::2] - turns[::2]).tolist(), strict=True))


def _passed_on(nodes: Sequence[PrintedNode], repeat: _Repeat) -> int:
    """Return how many values of the first layer are read after it."""
    end = repeat.start + repeat.period
    own = {node.name for node in nodes[repeat.start : end]}
    return len({arg for node in nodes[end:] for arg in node.args if arg in own})
