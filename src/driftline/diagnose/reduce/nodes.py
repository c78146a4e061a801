"""Which nodes are needed? First whole kinds of operators, then kinds in detail, then places, then one after another.

A set of n nodes of which k are needed takes about k times log n questions, where taking away one node after the other
would take n. Fewer where a guess is right: what is rare is more likely to be wrong than what is everywhere.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Sequence
from math import prod
from typing import TypeVar

from driftline.diagnose.reduce.cutting import MODES, Mode, fewer_ends, keep, single_removals
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph
from driftline.diagnose.reduce.search import CandidateAnswer, Reply, Search

T = TypeVar("T", bound=Hashable)
SMALL = 3  # from here on, one node after the other
_ALONE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # when to ask whether what was found is all
_WRITTEN = 8  # elements of a constant that is rather an attribute: an axis, a bound

Evaluate = Callable[[ProgramGraph], Evaluated]


class Stalled(Exception):
    """Many questions in a row without progress: another way is better."""


class _FewLeft(Exception):
    """So few operators that one after the other is better."""


def needed(
    elements: Sequence[T], fails: Callable[[Collection[T]], Collection[T] | None], *, guess: int | None = None
) -> list[T]:
    """A part of the elements that fails, found by halving. `fails` gives what is left of a set that fails, or None.

    The last element without which it does not fail is searched for; what stands behind it goes; and so on. Everything
    is sure only of what was asked: where needs depend on each other in odd ways, more than necessary may stay. The
    first `guess` elements are asked about first, instead of a half.
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
        if guess and not found:
            middle = min(guess, high - 1)
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


# -- what nodes have in common -----------------------------------------------------------------------------------------

NodeTrait = Callable[[Evaluated, int], Hashable]


def _operator(base: Evaluated, at: int) -> Hashable:
    return base.graph.nodes[at].op


def _in_detail(base: Evaluated, at: int) -> Hashable:
    """With its attributes, the types it is given, and constants that are as small as attributes."""
    node = base.graph.nodes[at]
    given = (base.graph.leaf.get(n) for n in node.operands)
    constants = tuple(v.data for v in given if v and v.constant and prod(v.type.shape) <= _WRITTEN)
    return node.op, json.dumps(node.attributes, sort_keys=True), tuple(map(base.types.get, node.operands)), constants


def _place(base: Evaluated, at: int) -> Hashable:
    return at


_TRAITS: tuple[NodeTrait, ...] = (_operator, _in_detail, _place)


class _Questions:
    """Asks whether sets of nodes fail in one mode, and follows what does."""

    def __init__(self, search: Search[ProgramGraph], base: Evaluated, mode: Mode) -> None:
        self._search, self._base, self._mode = search, base, mode
        self._kept: frozenset[int] = frozenset(range(len(base.graph.nodes)))
        self._patience = 2 * math.ceil(math.log2(len(base.graph.nodes) + 2)) + 4
        self._in_vain = 0

    def narrow(self, trait: NodeTrait) -> None:
        """Only nodes whose trait is needed."""
        kinds = self._kinds(trait)
        what = "operators removed" if trait is _place else "operators of a kind removed"

        def fails(chosen: Collection[Hashable]) -> set[Hashable] | None:
            left = self._nodes([at for kind in chosen for at in kinds[kind] if at in self._kept], what)
            return None if left is None else {trait(self._base, at) for at in left}

        self._in_vain = 0
        if len(kinds) > 1:
            needed(list(kinds), fails, guess=_rare(list(map(len, kinds.values()))))

    def guess(self) -> None:
        """Is it what is rare in the program? One question."""
        for trait in _TRAITS:
            kinds = list(self._kinds(trait).values())
            if rare := _rare(list(map(len, kinds))):
                self._nodes([at for nodes in kinds[:rare] for at in nodes], "what is rare kept")
                return

    def _kinds(self, trait: NodeTrait) -> dict[Hashable, list[int]]:
        """The rare ones first."""
        kinds: dict[Hashable, list[int]] = defaultdict(list)
        for at in sorted(self._kept):
            kinds[trait(self._base, at)].append(at)
        return dict(sorted(kinds.items(), key=lambda kind: (len(kind[1]), kind[1][0])))

    def _nodes(self, wanted: Collection[int], what: str) -> frozenset[int] | None:
        made = keep(self._base, wanted, self._mode) if wanted else None
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
            self._kept = alive
            self._search.accept(graph, what)
            if graph.size.operators <= SMALL:
                raise _FewLeft
        return alive


def _rare(counts: Sequence[int]) -> int | None:
    """How many of the kinds, the rare ones first, are rare: before the greatest leap of those that leave few nodes."""
    most = max(SMALL, sum(counts) // 10)
    leaps: dict[int, float] = {}
    for at, (kept, before, after) in enumerate(zip(itertools.accumulate(counts), counts, counts[1:], strict=False), 1):
        if kept <= most and after > before:
            leaps[at] = after / before
    return max(leaps, key=leaps.__getitem__, default=None)


def rare_kept(search: Search[ProgramGraph], evaluate: Evaluate) -> bool:
    """Does what is rare in the program fail by itself? Then nothing has to be asked about the whole."""
    start = search.best
    with contextlib.suppress(_FewLeft):
        _Questions(search, evaluate(start), MODES[0]).guess()
    return search.best is not start


def fewer_nodes(search: Search[ProgramGraph], evaluate: Evaluate) -> None:
    """Make the best smaller by taking nodes away, as far as halving goes. A few may still be too many."""
    progress = True
    while progress and search.best.size.operators > SMALL:
        before = search.best.size
        for mode in MODES:
            if search.best.size.operators > SMALL:
                questions = _Questions(search, evaluate(search.best), mode)
                with contextlib.suppress(Stalled, _FewLeft):
                    for trait in _TRAITS:
                        questions.narrow(trait)
        progress = search.best.size < before


def reduce_graph(
    start: ProgramGraph, fails: Callable[[ProgramGraph], bool], evaluate: Evaluate
) -> Search[ProgramGraph]:
    """Fewer nodes for a plain predicate, asked about one graph at a time. The result is the `best` of the search."""

    def ask(graphs: Sequence[ProgramGraph]) -> list[Reply]:
        return [Reply(CandidateAnswer.SAME if fails(graph) else CandidateAnswer.PASS) for graph in graphs]

    search = Search(ask, start)
    if rare_kept(search, evaluate) or search.fails(start):
        fewer_nodes(search, evaluate)
        one_by_one(search, evaluate)
    return search


def one_by_one(search: Search[ProgramGraph], evaluate: Evaluate) -> None:
    """Until no operator, output or input can go."""
    while True:
        base = evaluate(search.best)
        if search.first(single_removals(base), "an operator removed"):
            continue
        if search.first(fewer_ends(base), "an input or output removed"):
            continue
        return


def is_one_minimal(search: Search[ProgramGraph], evaluate: Evaluate) -> bool:
    """Was every program with one operator less asked about, and none of them fails? Asked alone, not scouted."""
    smaller = (graph for graph in single_removals(evaluate(search.best)) if graph.size < search.best.size)
    return not any(search.fails(graph) for graph in smaller)
