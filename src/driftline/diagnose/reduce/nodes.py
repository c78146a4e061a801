"""Find which nodes a failure needs: first by operator, then by operator with attributes, then by position, finally one
by one.

Finding k needed nodes among n takes about k times log n questions, while removing one node after another takes n. A
correct guess saves questions: rare operators are more likely to be wrong than common ones.
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
_ALONE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # numbers of found elements at which to test whether they suffice
_WRITTEN = 8  # elements of a constant that is rather an attribute: an axis, a bound

Evaluate = Callable[[ProgramGraph], Evaluated]


class Stalled(Exception):
    """Raised after many questions without progress: another mode may do better."""


class _FewLeft(Exception):
    """Raised when so few operators are left that removing one after another is faster."""


def needed(
    elements: Sequence[T], fails: Callable[[Collection[T]], Collection[T] | None], *, guess: int | None = None
) -> list[T]:
    """Find a part of the elements that fails, by halving. `fails` returns what is left of a failing set, or None.

    The search finds the last needed element, drops the elements after it, and repeats. The result is known to fail, but
    may contain more elements than necessary if they depend on each other in unusual ways. With `guess`, the first
    `guess` elements are tested first, instead of a half.
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
        if high == 0 or low < 0:  # the found elements suffice
            return found
        found.insert(0, rest[high - 1])
        rest = rest[: high - 1]
    return found


# -- what nodes have in common -----------------------------------------------------------------------------------------

NodeTrait = Callable[[Evaluated, int], Hashable]


def _operator(base: Evaluated, at: int) -> Hashable:
    return base.graph.nodes[at].op


def _in_detail(base: Evaluated, at: int) -> Hashable:
    """Return a node's operator, attributes, operand types, and constants that are as small as attributes, as a key."""
    node = base.graph.nodes[at]
    given = (base.graph.leaf.get(n) for n in node.operands)
    constants = tuple(v.data for v in given if v and v.constant and prod(v.type.shape) <= _WRITTEN)
    return node.op, json.dumps(node.attributes, sort_keys=True), tuple(map(base.types.get, node.operands)), constants


def _place(base: Evaluated, at: int) -> Hashable:
    return at


_TRAITS: tuple[NodeTrait, ...] = (_operator, _in_detail, _place)


class _Questions:
    """Tests whether sets of nodes fail in one mode, and keeps the smallest failing set."""

    def __init__(self, search: Search[ProgramGraph], base: Evaluated, mode: Mode) -> None:
        self._search, self._base, self._mode = search, base, mode
        self._kept: frozenset[int] = frozenset(range(len(base.graph.nodes)))
        self._patience = 2 * math.ceil(math.log2(len(base.graph.nodes) + 2)) + 4
        self._in_vain = 0

    def narrow(self, trait: NodeTrait) -> None:
        """Keep only the nodes whose trait is needed."""
        kinds = self._kinds(trait)
        what = "operators removed" if trait is _place else "operators of a kind removed"

        def fails(chosen: Collection[Hashable]) -> set[Hashable] | None:
            left = self._nodes([at for kind in chosen for at in kinds[kind] if at in self._kept], what)
            return None if left is None else {trait(self._base, at) for at in left}

        self._in_vain = 0
        if len(kinds) > 1:
            needed(list(kinds), fails, guess=_rare(list(map(len, kinds.values()))))

    def guess(self) -> None:
        """Test, with one question, whether the rare nodes of the program fail alone."""
        for trait in _TRAITS:
            kinds = list(self._kinds(trait).values())
            if rare := _rare(list(map(len, kinds))):
                self._nodes([at for nodes in kinds[:rare] for at in nodes], "what is rare kept")
                return

    def _kinds(self, trait: NodeTrait) -> dict[Hashable, list[int]]:
        """Group the kept nodes by trait, the rarest first."""
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
    """Return how many of the kinds, sorted from rare to common, count as rare: those before the largest jump in
    frequency, as long as few nodes remain. None if there is no such jump.
    """
    most = max(SMALL, sum(counts) // 10)
    leaps: dict[int, float] = {}
    for at, (kept, before, after) in enumerate(zip(itertools.accumulate(counts), counts, counts[1:], strict=False), 1):
        if kept <= most and after > before:
            leaps[at] = after / before
    return max(leaps, key=leaps.__getitem__, default=None)


def rare_kept(search: Search[ProgramGraph], evaluate: Evaluate) -> bool:
    """Test the rare nodes of the program alone. True if they fail, so that the whole program need not be tested."""
    start = search.best
    with contextlib.suppress(_FewLeft):
        _Questions(search, evaluate(start), MODES[0]).guess()
    return search.best is not start


def fewer_nodes(search: Search[ProgramGraph], evaluate: Evaluate) -> None:
    """Make the best program smaller by removing nodes, as far as halving goes. Some needless nodes may remain."""
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
    """Reduce the nodes of a graph for a plain predicate that tests one graph at a time. The result is the `best` of the
    search.
    """

    def ask(graphs: Sequence[ProgramGraph]) -> list[Reply]:
        return [Reply(CandidateAnswer.SAME if fails(graph) else CandidateAnswer.PASS) for graph in graphs]

    search = Search(ask, start)
    if rare_kept(search, evaluate) or search.fails(start):
        fewer_nodes(search, evaluate)
        one_by_one(search, evaluate)
    return search


def one_by_one(search: Search[ProgramGraph], evaluate: Evaluate) -> None:
    """Remove single operators, outputs and inputs until none can be removed."""
    while True:
        base = evaluate(search.best)
        if search.first(single_removals(base), "an operator removed"):
            continue
        if search.first(fewer_ends(base), "an input or output removed"):
            continue
        return


def is_one_minimal(search: Search[ProgramGraph], evaluate: Evaluate) -> bool:
    """True if every program with one operator less was tested by itself, and none of them fails."""
    smaller = (graph for graph in single_removals(evaluate(search.best)) if graph.size < search.best.size)
    return not any(search.fails(graph) for graph in smaller)
