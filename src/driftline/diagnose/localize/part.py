"""Make a program of some nodes of a graph, fed with the values of the reference run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from driftline.diagnose.localize.stretches import RecordedRun
from driftline.diagnose.reduce.cutting import is_read_elsewhere
from driftline.diagnose.reduce.graph import ProgramGraph, ProgramLeaf


def units(graph: ProgramGraph) -> list[tuple[int, ...]]:
    """Group the nodes into operators, each with the nodes that unpack its result."""
    found: dict[int, list[int]] = {}
    home: dict[int, int] = {}
    for at, node in enumerate(graph.nodes):
        producer = graph.producers.get(node.inputs[0] or 0) if node.free and node.inputs else None
        home[at] = at if producer is None else home[producer]
        found.setdefault(home[at], []).append(at)
    return [tuple(nodes) for nodes in found.values()]


def part(
    run: RecordedRun, wanted: Collection[int], *, largest_constant: int | None, taps: bool = False
) -> ProgramGraph | None:
    """Return the program of the wanted nodes, or None if there is none. Its outputs are the values that other nodes
    read, or, with `taps`, every value. Constants of more than `largest_constant` elements become inputs.
    """
    graph = run.graph
    chosen, leaves = _with_what_they_read(run, set(wanted))
    if leaves is None:
        return None
    outputs = []
    for at in sorted(wanted):
        for number in graph.nodes[at].outputs:
            tensor = run.types.get(number, True)  # values after the point where the reference raises are unknown
            if tensor and (taps or is_read_elsewhere(graph, number, chosen)):
                outputs.append(number)
    if not outputs:
        return None
    held = [_as_input(leaf, largest_constant) for _, leaf in sorted(leaves.items())]
    return ProgramGraph(tuple(held), tuple(graph.nodes[at] for at in sorted(chosen)), tuple(outputs), graph.header)


def _with_what_they_read(run: RecordedRun, chosen: set[int]) -> tuple[set[int], dict[int, ProgramLeaf] | None]:
    """Return the nodes, and the values that they read from outside as inputs. Nodes whose result is not a tensor are
    added. The inputs are None if the reference run does not compute them.
    """
    graph = run.graph
    while True:
        outside = {n for at in chosen for n in graph.nodes[at].operands if graph.producers.get(n) not in chosen}
        run.require(outside)
        leaves = {number: run.leaf(number) for number in outside}
        missing = {graph.producers.get(number) for number, leaf in leaves.items() if leaf is None}
        if None in missing or any(run.types.get(n) for n, leaf in leaves.items() if leaf is None):
            return chosen, None  # the reference run does not get there
        if not missing:
            return chosen, {number: leaf for number, leaf in leaves.items() if leaf}
        chosen |= {at for at in missing if at is not None}


def _as_input(leaf: ProgramLeaf, largest_constant: int | None) -> ProgramLeaf:
    elements = 1
    for size in leaf.type.shape:
        elements *= size
    large = leaf.constant and largest_constant is not None and elements > largest_constant
    return replace(leaf, constant=False) if large else leaf
