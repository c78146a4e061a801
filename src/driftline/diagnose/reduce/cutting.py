"""Make programs of fewer nodes. The result of a removed node is replaced in one of three ways:

- *cut*: it becomes an input that holds what the reference run computed there;
- *bypass*: it is replaced by one of its own operands of the same type, so that data still flows;
- *join*: it is bypassed as far as the next kept node, and cut if there is none: data flows between the kept nodes, and
  values from outside stay the same.

`Returned` says what the program returns then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto

from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph, ProgramLeaf, ProgramNode, without_dead_code


class DataFlow(Enum):
    CUT = auto()
    BYPASS = auto()
    JOIN = auto()


class Returned(Enum):
    """Which results of the nodes that stay become outputs."""

    KEPT = auto()  # results that the whole program returns
    UNREAD = auto()  # also the results of nodes that no kept node reads
    READ_ELSEWHERE = auto()  # results that the whole program returns or removed nodes read
    ENDS = auto()  # only results that no kept node reads


@dataclass(frozen=True)
class Mode:
    """How a set of nodes is turned into a program."""

    flow: DataFlow
    returned: Returned


# In the order in which they are tried. For a single removed node, a cut or a bypass does the same as a join.
SINGLE_MODES = (
    Mode(DataFlow.CUT, Returned.UNREAD),
    Mode(DataFlow.BYPASS, Returned.UNREAD),
    Mode(DataFlow.BYPASS, Returned.KEPT),
)
MODES = (Mode(DataFlow.JOIN, Returned.UNREAD), *SINGLE_MODES)


def keep(base: Evaluated, wanted: Collection[int], mode: Mode) -> tuple[ProgramGraph, frozenset[int]] | None:
    """Return the program of the wanted nodes, and the nodes that it really contains; None if there is no such
    program.
    """
    kept = set(wanted)
    while True:
        cut = _Cut(base, kept, mode)
        try:
            return cut.graph()
        except _CannotGo as node:  # its result is not a tensor: it stays as long as something reads it
            kept.add(node.args[0])


class _CannotGo(Exception):
    pass


class _Cut:
    def __init__(self, base: Evaluated, kept: set[int], mode: Mode) -> None:
        self._base, self._kept, self._mode = base, kept, mode
        self._new: dict[int, ProgramLeaf] = {}

    def graph(self) -> tuple[ProgramGraph, frozenset[int]] | None:
        graph = self._base.graph
        nodes: dict[int, ProgramNode] = {}
        for at in sorted(self._kept):
            node = graph.nodes[at]
            nodes[at] = replace(node, inputs=tuple(None if n is None else self._resolved(n) for n in node.inputs))
        outputs = [number for number in self._returned(nodes.values()) if self._base.types.get(number)]
        if not outputs:
            return None
        small = without_dead_code((*graph.leaves, *self._new.values()), nodes.values(), outputs, graph.header)
        alive = {number for node in small.nodes for number in node.outputs}
        return small, frozenset(at for at, node in nodes.items() if alive & set(node.outputs) or node.effects)

    def _returned(self, nodes: Collection[ProgramNode]) -> list[int]:
        graph = self._base.graph
        made = dict.fromkeys(number for node in nodes for number in node.outputs)
        read = {number for node in nodes for number in node.operands}
        kept = [number for number in map(self._origin, graph.outputs) if number in made]
        match self._mode.returned:
            case Returned.KEPT:
                return kept
            case Returned.UNREAD:
                lost = [node for node in nodes if not node.free and not (read | set(kept)) & set(node.outputs)]
                return [*kept, *(number for node in lost for number in node.outputs)]
            case Returned.READ_ELSEWHERE:
                return [number for number in made if is_read_elsewhere(graph, number, self._kept)]
            case Returned.ENDS:
                return [number for number in made if number not in read]

    def _resolved(self, number: int) -> int:
        """Return the value to read in place of `number`: itself, its replacement, or a new input with its reference
        value.
        """
        graph = self._base.graph
        number = self._origin(number)
        if number in graph.leaf or graph.producers[number] in self._kept:
            return number
        leaf = self._base.as_leaf(number)
        if leaf is None:
            raise _CannotGo(graph.producers[number])
        self._new[number] = leaf
        return number

    def _origin(self, number: int) -> int:
        """Follow a value of a removed node back to its replacement, as far as the mode says."""
        if self._mode.flow is DataFlow.JOIN:
            return self._nearest_kept(number)
        while self._mode.flow is DataFlow.BYPASS and self._is_removed(number) and (operands := self._fitting(number)):
            number = operands[0]
        return number

    def _nearest_kept(self, number: int) -> int:
        waiting, seen = [number], {number}
        for value in waiting:
            if not self._is_removed(value):
                if value in self._base.graph.producers:
                    return value
                continue
            operands = [n for n in self._fitting(value) if n not in seen]
            seen.update(operands)
            waiting += operands
        return number

    def _is_removed(self, number: int) -> bool:
        producer = self._base.graph.producers.get(number)
        return producer is not None and producer not in self._kept

    def _fitting(self, number: int) -> list[int]:
        """Return the operands of the value's node that have the value's type."""
        return fitting_operands(self._base, self._base.graph.producers[number], number)


def is_read_elsewhere(graph: ProgramGraph, number: int, kept: Collection[int]) -> bool:
    """True if a value of the kept nodes is read or returned outside of them, or is read by nothing at all."""
    readers = graph.readers.get(number, ())
    return not readers or number in graph.outputs or any(at not in kept for at in readers)


def fitting_operands(base: Evaluated, at: int, number: int) -> list[int]:
    """Return the operands of node `at` that have the type of its result `number`."""
    wanted = base.types.get(number)
    return [n for n in base.graph.nodes[at].operands if wanted and wanted.fits(base.types.get(n))]


def replaced(graph: ProgramGraph, old: int, new: int) -> ProgramGraph:
    """Return the program in which `new` is read wherever `old` was."""

    def other(value: int | None) -> int | None:
        return new if value == old else value

    nodes = [replace(node, inputs=tuple(map(other, node.inputs))) for node in graph.nodes]
    outputs = [new if value == old else value for value in graph.outputs]
    made = {value for node in nodes for value in node.outputs}
    return without_dead_code(graph.leaves, nodes, [value for value in outputs if value in made], graph.header)


def single_removals(base: Evaluated) -> Iterator[ProgramGraph]:
    """Yield every program with one operator less, in every way to remove it; the last operators first."""
    for mode in SINGLE_MODES:
        yield from plain_removals(base, mode)
    for at in _countable(base.graph):
        yield from _other_operands(base, at)


def plain_removals(base: Evaluated, mode: Mode) -> Iterator[ProgramGraph]:
    """Yield every program with one operator less, removed as `mode` says."""
    everything = set(range(len(base.graph.nodes)))
    for at in _countable(base.graph):
        made = keep(base, everything - {at}, mode)
        if made and made[0].outputs:
            yield made[0]


def _countable(graph: ProgramGraph) -> list[int]:
    return [at for at in reversed(range(len(graph.nodes))) if not graph.nodes[at].free]


def _other_operands(base: Evaluated, at: int) -> Iterator[ProgramGraph]:
    """Yield programs in which a node is replaced by an operand other than the first of its type."""
    graph = base.graph
    for number in graph.nodes[at].outputs:
        for operand in dict.fromkeys(fitting_operands(base, at, number)[1:]):
            small = replaced(graph, number, operand)
            if small.outputs and len(small.nodes) < len(graph.nodes):
                yield small


def fewer_ends(base: Evaluated) -> Iterator[ProgramGraph]:
    """Yield programs with fewer outputs and inputs: first one input for all of a type, then one output or input
    less.
    """
    graph = base.graph
    together = graph
    for leaf, other in _alike(graph):
        together = replaced(together, leaf.number, other.number)
    yield together
    for number in graph.outputs if len(graph.outputs) > 1 else ():
        kept = [other for other in graph.outputs if other != number]
        yield without_dead_code(graph.leaves, graph.nodes, kept, graph.header)
    for leaf, other in _alike(graph):
        yield replaced(graph, leaf.number, other.number)
    for leaf in graph.leaves:
        if leaf.constant:  # an input is plainer than a constant: it says that its value does not matter
            leaves = [replace(v, constant=False) if v is leaf else v for v in graph.leaves]
            yield replace(graph, leaves=tuple(leaves))


def _alike(graph: ProgramGraph) -> Iterator[tuple[ProgramLeaf, ProgramLeaf]]:
    """Yield each leaf with the first earlier leaf that could replace it. Constants and inputs do not replace each
    other.
    """
    for at, leaf in enumerate(graph.leaves):
        for other in graph.leaves[:at]:
            if leaf.constant == other.constant and leaf.type.fits(other.type):
                yield leaf, other
                break
