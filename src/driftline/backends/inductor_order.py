"""Orders Inductor's kernels so that calls into libraries interrupt few of them.

The C++ backend writes consecutive loops into one file, and begins another file after each call into a library. For
independent programs in one graph that makes a file for nearly every call, and starting the C++ compiler takes longer
than compiling most of them. Any order that keeps the dependencies is correct: here all loops that can run go first,
then all calls that can, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

# A scheduler pass of our own is run before the one for peak memory, which would undo it.
LOOPS_SIDE_BY_SIDE: dict[str, Any] = {
    "_post_fusion_custom_pass": lambda nodes: list(loops_first(nodes)),
    "reorder_for_peak_memory": False,
}


def loops_first(nodes: Sequence[Any]) -> Iterator[Any]:
    """Yield the nodes of Inductor's scheduler, in alternating runs of loops and calls that are as long as possible."""
    names = [frozenset(inner.get_name() for inner in node.get_nodes()) for node in nodes]
    within = frozenset().union(*names)
    needs = [(node.ancestors & within) - own for node, own in zip(nodes, names, strict=True)]
    waiting = list(range(len(nodes)))
    done: set[str] = set()
    calls = False
    while waiting:
        later = []
        for number in waiting:
            if _is_call(nodes[number]) == calls and done.issuperset(needs[number]):
                done |= names[number]
                yield nodes[number]
            else:
                later.append(number)
        waiting = later
        calls = not calls


def _is_call(node: Any) -> bool:
    return bool(node.is_extern() or node.is_template())
