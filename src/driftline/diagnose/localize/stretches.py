"""Compute the values of a graph's reference run in stretches, and keep them in files only while there is room.

A large model has more intermediate values than fit on disk. All types are recorded once; values are dropped when the
room is used up, and computed again from the remaining ones when they are needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import prod
from pathlib import Path

from driftline.core.tensors import numpy_dtype
from driftline.diagnose.reduce.graph import ProgramGraph, ProgramLeaf, ValueType
from driftline.diagnose.reduce.nodes import Evaluate

STRETCH = 32  # nodes that are run in one job
ROOM = 1 << 30  # bytes of values that are kept


class RecordedRun:
    """Has the type of every value of a graph, and computes values on demand."""

    def __init__(
        self, graph: ProgramGraph, evaluate: Evaluate, folder: Path, *, stretch: int = STRETCH, room: int = ROOM
    ) -> None:
        self.graph = graph
        self._evaluate = evaluate
        self._folder = folder
        self._stretch = stretch
        self._room = room
        self.types: dict[int, ValueType | None] = {leaf.number: leaf.type for leaf in graph.leaves}
        self._data: dict[int, str] = {leaf.number: leaf.data for leaf in graph.leaves}
        self._effects = any(node.effects for node in graph.nodes)
        self._compute(range(len(graph.nodes)), wanted=())

    def require(self, wanted: Iterable[int]) -> None:
        """Compute the given values, unless they are present already. Values that are not tensors, or that the reference
        run does not reach, are skipped.
        """
        missing = [number for number in wanted if number not in self._data and self.types.get(number)]
        if missing:
            self._compute(self._needed_for(missing), missing)

    def leaf(self, number: int) -> ProgramLeaf | None:
        """Return a value as an input of a program, or None if it is not present; call `require` first."""
        if number in self.graph.leaf:
            return self.graph.leaf[number]
        known = self.types.get(number)
        return ProgramLeaf(number, known, self._data[number]) if known and number in self._data else None

    def _needed_for(self, missing: Collection[int]) -> Sequence[int]:
        """Return the nodes that compute the missing values from those present; all nodes if any node writes into
        memory.
        """
        if self._effects:
            return range(len(self.graph.nodes))
        needed: set[int] = set()
        waiting = list(missing)
        while waiting:
            number = waiting.pop()
            at = self.graph.producers.get(number)
            if at is not None and number not in self._data and at not in needed:
                needed.add(at)
                waiting += self.graph.nodes[at].operands
        return sorted(needed)

    def _compute(self, nodes: Sequence[int], wanted: Collection[int]) -> None:
        size = len(nodes) if self._effects else self._stretch  # nodes that share memory must run together
        for begin in range(0, len(nodes), max(size, 1)):
            now = list(nodes[begin : begin + size])
            later = nodes[begin + size :]
            found = self._evaluate(self._as_graph(now))
            self.types = {**found.types, **self.types}
            self._data |= found.data
            self._make_room({*wanted, *(n for at in later for n in self.graph.nodes[at].operands)})

    def _as_graph(self, nodes: list[int]) -> ProgramGraph:
        """Return a stretch of nodes as a program of its own. Nodes that make inputs which are not tensors are
        included.
        """
        chosen = set(nodes)
        waiting = list(nodes)
        leaves: dict[int, ProgramLeaf] = {}
        while waiting:
            for number in self.graph.nodes[waiting.pop()].operands:
                at = self.graph.producers.get(number)
                if at in chosen:
                    continue
                leaf = self.leaf(number)
                if leaf:
                    leaves[number] = leaf
                elif at is not None:
                    chosen.add(at)
                    waiting.append(at)
        inside = tuple(self.graph.nodes[at] for at in sorted(chosen))
        made = {number for node in inside for number in node.outputs}
        return ProgramGraph(tuple(v for n, v in leaves.items() if n not in made), inside, (), self.graph.header)

    def _make_room(self, needed: Collection[int]) -> None:
        """Drop values that are not needed if the room is used up."""
        sizes = {number: self._size(number) for number in self._data if number not in self.graph.leaf}
        if sum(sizes.values()) <= self._room:
            return
        for number in sizes:
            if number not in needed:
                name = self._data.pop(number)
                if name not in self._data.values():
                    (self._folder / name).unlink(missing_ok=True)

    def _size(self, number: int) -> int:
        kind = self.types.get(number)
        return prod(kind.shape) * numpy_dtype(kind.dtype).itemsize if kind else 0
