"""Computes how much memory a graph needs at once, by walking over its nodes in execution order.

Memory is counted by storage: a view has none of its own. Inputs (including parameters) are live all the time, since the
caller holds them; every other value is live from the node that makes it to the last one that reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from driftline.hardware.facts import INPUT, OUTPUT, GraphFacts, NodeFacts, TensorFacts


@dataclass(frozen=True)
class Live:
    """A tensor in memory, with the node that made it."""

    node: str
    tensor: TensorFacts

    @property
    def nbytes(self) -> int:
        return self.tensor.storage_bytes or self.tensor.nbytes


@dataclass(frozen=True)
class Peak:
    """The point at which a graph needs the most memory."""

    nbytes: int
    node: NodeFacts | None
    live: tuple[Live, ...]  # the tensors in memory at that point, the largest first


def peak_memory(graph: GraphFacts, *, inputs: bool = True) -> Peak:
    """Return the memory peak of a graph. `inputs`: count the graph's inputs too."""
    last = _last_uses(graph)
    held: dict[int, Live] = {}
    given: set[int] = set()
    peak = Peak(0, None, ())
    total = 0
    for position, node in enumerate(graph.nodes):
        for tensor in node.outputs:
            if node.operator == INPUT:
                given.add(tensor.storage)
            if tensor.storage in held or (tensor.storage in given and not inputs):
                continue
            held[tensor.storage] = Live(node.name, tensor)
            total += held[tensor.storage].nbytes
        if total > peak.nbytes:
            peak = Peak(total, node, tuple(held.values()))
        for storage in [s for s in held if last.get(s, position) <= position and s not in given]:
            total -= held.pop(storage).nbytes
    ordered = tuple(sorted(peak.live, key=lambda one: -one.nbytes))
    return Peak(peak.nbytes, peak.node, ordered)


def _last_uses(graph: GraphFacts) -> dict[int, int]:
    """Return, by storage, the position of the last node that reads it or makes a view of it."""
    last: dict[int, int] = {}
    for position, node in enumerate(graph.nodes):
        at = len(graph.nodes) if node.operator == OUTPUT else position
        for tensor in (*node.inputs, *node.outputs):
            last[tensor.storage] = at
    return last
