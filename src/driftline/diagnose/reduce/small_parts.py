"""Find all small parts of a program that fail: connected operators, fed with the values that the whole program has
there.

If a batch of programs costs hardly more than one program, this takes fewer runs than halving, and it finds every
failing part instead of one: a program may have several bugs. Failures that need larger parts are left to
`fewer_operators`.
"""

from __future__ import annotations

from collections.abc import Iterator

from driftline.diagnose.reduce.cutting import DataFlow, Mode, Returned, keep, plain_removals
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph
from driftline.diagnose.reduce.nodes import Evaluate
from driftline.diagnose.reduce.search import Search

MOST_PARTS = 48  # of one size
LARGEST = 3  # operators
# A compiler may fuse a value only if nothing else reads it, so parts are also tried without inner values as outputs.
OPEN = Mode(DataFlow.CUT, Returned.READ_ELSEWHERE)
CLOSED = Mode(DataFlow.CUT, Returned.ENDS)


def small_parts(base: Evaluated) -> Iterator[list[ProgramGraph]]:
    """Yield groups of parts to test together, the smallest first. A single operator has nothing to hide."""
    for size in range(1, min(LARGEST, len(base.graph.nodes) - 1) + 1):
        for mode in (OPEN, CLOSED) if size > 1 else (OPEN,):
            yield parts_of(base, size, mode)


def parts_of(base: Evaluated, size: int, mode: Mode = OPEN, most: int = MOST_PARTS) -> list[ProgramGraph]:
    """Return connected parts of `size` operators, at most `most` of them."""
    made = (keep(base, nodes, mode) for nodes in _connected(base.graph, size)[:most])
    return [part[0] for part in made if part]


def _connected(graph: ProgramGraph, size: int) -> list[list[int]]:
    neighbours: list[set[int]] = [set() for _ in graph.nodes]
    for number, maker in graph.producers.items():
        for reader in graph.readers.get(number, ()):
            neighbours[maker].add(reader)
            neighbours[reader].add(maker)
    found: set[frozenset[int]] = {frozenset((node,)) for node in range(len(graph.nodes))}
    for _ in range(size - 1):
        found = {kept | {other} for kept in found for node in kept for other in neighbours[node] - kept}
    return sorted(map(sorted, found))


def fewer_operators(search: Search[ProgramGraph], evaluate: Evaluate, least: int) -> None:
    """Remove operators one at a time, while more than `least` are left and the program still fails. The first operators
    are removed first: if several parts fail, the last one has always named the bug.
    """

    def one_less(mode: Mode) -> bool:
        last_first = plain_removals(evaluate(search.best), mode)
        return search.first(reversed([*last_first]), "an operator removed")

    while search.best.size.operators > least and any(map(one_less, (OPEN, CLOSED))):
        pass
