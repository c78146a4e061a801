"""Which nodes are needed? First whole kinds of operators, then places in the program, then one node after another.

A set of n nodes of which k are needed takes about k times log n questions, where taking away one node after the other
would take n.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import TypeVar

from driftline.diagnose.reduce.cutting import MODES, Mode, fewer_ends, keep, single_removals
from driftline.diagnose.reduce.graph import Evaluated, Graph
from driftline.diagnose.reduce.search import Answer, Reply, Search

T = TypeVar("T", bound=Hashable)
SMALL = 3  # from here on, one node after the other
_ALONE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # when to ask whether what was found is all

Evaluate = Callable[[Graph], Evaluated]


class Stalled(Exception):
    """Many questions in a row without progress: another way is better."""


def needed(elements: Sequence[T], fails: Callable[[Collection[T]], Collection[T] | None]) -> list[T]:
    """A part of the elements that fails, found by halving. `fails` gives what is left of a set that fails, or None.

    The last element without which it does not fail is searched for; what stands behind it goes; and so on. Everything
    is sure only of what was asked: where needs depend on each other in odd ways, more than necessary may stay.
    """
    found: list[T] = []
    rest = list(elements)
    while rest:
        low = -1
        if len(found) in _ALONE:
            low = 0
            if (left := fails(found)) is not None:
                return [element for element in found if element in left]
        elif not found:
            low = 0
        high = len(rest)
        middle = high - max(1, high // (len(found) + 2))
        while high - low > 1:
            left = fails([*rest[:middle], *found])
            if left is None:
                low = middle
            else:
                rest = [element for element in rest[:middle] if element in left]
                found = [element for element in found if element in left]
                high = len(rest)
                low = min(low, high - 1)
            middle = (low + high) // 2
        if high == 0 or low < 0:  # what was found is all
            return found
        found.insert(0, rest[high - 1])
        rest = rest[: high - 1]
    return found


class _Questions:
    """Asks whether sets of nodes fail in one mode, and follows what does."""

    def __init__(self, search: Search[Graph], base: Evaluated, mode: Mode, what: str) -> None:
        self._search, self._base, self._mode, self._what = search, base, mode, what
        self.kept: frozenset[int] = frozenset(range(len(base.graph.nodes)))
        self._patience = 2 * math.ceil(math.log2(len(base.graph.nodes) + 2)) + 4
        self._in_vain = 0

    def nodes(self, wanted: Collection[int]) -> frozenset[int] | None:
        made = keep(self._base, wanted, self._mode)
        if made is None:
            return None
        graph, alive = made
        if not self._search.fails(graph):
            self._in_vain += 1
            if self._in_vain > self._patience:
                raise Stalled
            return None
        if graph.size < self._search.best.size:
            self._in_vain = 0
            self.kept = alive
            self._search.accept(graph, self._what)
        return alive

    def kinds(self, wanted: Iterable[str]) -> set[str] | None:
        chosen = set(wanted)
        nodes = self._base.graph.nodes
        left = self.nodes([at for at in self.kept if nodes[at].op in chosen]) if chosen else None
        return None if left is None else {nodes[at].op for at in left}


def fewer_nodes(search: Search[Graph], evaluate: Evaluate) -> None:
    """Make the best smaller by taking nodes away, as far as it goes."""
    progress = True
    while progress and search.best.size.operators > 1:
        before = search.best.size
        for mode in MODES:
            if search.best.size.operators > SMALL:
                _in_mode(search, evaluate(search.best), mode)
        progress = search.best.size < before and search.best.size.operators > SMALL
    one_by_one(search, evaluate)


def reduce_graph(start: Graph, fails: Callable[[Graph], bool], evaluate: Evaluate) -> Search[Graph]:
    """Fewer nodes for a plain predicate, asked about one graph at a time. The result is the `best` of the search."""

    def ask(graphs: Sequence[Graph]) -> list[Reply]:
        return [Reply(Answer.SAME if fails(graph) else Answer.PASS) for graph in graphs]

    search = Search(ask, start)
    if search.fails(start):
        fewer_nodes(search, evaluate)
    return search


def _in_mode(search: Search[Graph], base: Evaluated, mode: Mode) -> None:
    kinds: dict[str, list[int]] = defaultdict(list)
    for at, node in enumerate(base.graph.nodes):
        kinds[node.op].append(at)
    try:
        questions = _Questions(search, base, mode, "operators of a kind removed")
        if len(kinds) > 1:
            rare_first = sorted(kinds, key=lambda op: (len(kinds[op]), kinds[op][0]))
            needed(rare_first, questions.kinds)
        if search.best.size.operators > SMALL:
            places = _Questions(search, base, mode, "operators removed")
            places.kept = questions.kept
            needed(sorted(questions.kept), places.nodes)
    except Stalled:
        pass


def one_by_one(search: Search[Graph], evaluate: Evaluate) -> None:
    """Until no operator, output or input can go."""
    while True:
        base = evaluate(search.best)
        if search.first(single_removals(base), "an operator removed"):
            continue
        if search.first(fewer_ends(base), "an input or output removed"):
            continue
        return


def is_one_minimal(search: Search[Graph], evaluate: Evaluate) -> bool:
    """Was every program with one operator less asked about, and none of them fails? Asked alone, not scouted."""
    smaller = (graph for graph in single_removals(evaluate(search.best)) if graph.size < search.best.size)
    return not any(search.fails(graph) for graph in smaller)
