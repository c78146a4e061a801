"""The values of a graph's reference run, computed in stretches and kept in files only as long as there is room.

A large model has more intermediate values than fit anywhere. Types are noted once for all; values are dropped when the
room is used up, and computed again from those that are left when somebody asks for them.
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
    """Knows the type of every value, and has the values that are asked for."""

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
        """Have the values of these, as far as they are tensors that the reference run computes."""
        missing = [number for number in wanted if number not in self._data and self.types.get(number)]
        if missing:
            self._compute(self._needed_for(missing), missing)

    def leaf(self, number: int) -> ProgramLeaf | None:
        """The value as an input; `require` it first."""
        if number in self.graph.leaf:
            return self.graph.leaf[number]
        known = self.types.get(number)
        return ProgramLeaf(number, known, self._data[number]) if known and number in self._data else None

    def _needed_for(self, missing: Collection[int]) -> Sequence[int]:
        """The nodes that compute them from what is there. Where memory is written to, all of them."""
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
        size = len(nodes) if self._effects else self._stretch  # what shares memory must be run as a whole
        for begin in range(0, len(nodes), max(size, 1)):
            now = list(nodes[begin : begin + size])
            later = nodes[begin + size :]
            found = self._evaluate(self._as_graph(now))
            self.types = {**found.types, **self.types}
            self._data |= found.data
            self._make_room({*wanted, *(n for at in later for n in self.graph.nodes[at].operands)})

    def _as_graph(self, nodes: list[int]) -> ProgramGraph:
        """The stretch as a program by itself. What is not a tensor has to be computed again."""
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
        """Drop what is not needed at once, if there is more than there is room for."""
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
