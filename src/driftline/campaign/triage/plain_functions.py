"""Replaces one of several calls that fail together by a plain function.

A compiler that loses the bias before any activation function loses it before five, and one that loses writes through
views loses them in `relu_` and `sigmoid_`. If it fails with two plain functions, no particular function is to blame,
and the bug is named after the plainer one. The reported part was seen to fail while no smaller part of it does: if
`relu` itself is wrong, that is another bug.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from driftline.campaign.triage.part_screening import PartScreening
from driftline.campaign.triage.plainest import same_failure
from driftline.campaign.triage.smallest_parts import SmallestParts
from driftline.checking.batch import Screened
from driftline.core.spelling import spelled_alike
from driftline.core.tensors import is_float
from driftline.core.verdict import Kind
from driftline.diagnose.reduce.generated import read_generated, write_generated
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph, ProgramNode, short_name
from driftline.generate.mutate import retyped

MOST_CALLS = 3  # calls of the largest part whose functions are replaced
_TOO_DEAR = (Kind.TIMEOUT, Kind.OOM)  # each try would take as long again


@dataclass(frozen=True)
class PlainFunctions:
    """Functions of one operand in a language, the plainest first, and those that write to their operand."""

    functions: tuple[str, ...]
    in_place: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)  # attributes of each node
    special: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # attributes of the nodes that need others

    def instead_of(self, node: ProgramNode, others: Collection[str]) -> list[ProgramNode]:
        """Return two plain calls that may replace a node, the plainer first; functions in `others` are not used.
        Returns an empty list if the node is the plainest itself, or if there are not two."""
        used, own = _spelled(others), _spelled([node.op])
        free = [name for name in (self.in_place if node.effects else self.functions) if not _spelled([name]) & used]
        names = [name for name in free if _spelled([name]) != own][:2]
        if _spelled(free[:1]) == own or len(names) < 2:
            return []
        return [
            replace(node, op=name, inputs=node.inputs[:1], attributes=self.special.get(name, self.attributes))
            for name in names
        ]


OF_TABLE = PlainFunctions(("relu", "sigmoid", "tanh", "abs"), ("relu_", "sigmoid_", "add_itself_"))
OF_ONNX = PlainFunctions(("Relu", "Sigmoid", "Tanh", "Abs"))
OF_TORCH = PlainFunctions(
    ("torch.relu", "torch.sigmoid", "torch.tanh", "torch.abs"),
    (".relu_", ".sigmoid_", ".add_"),
    {"args": [{"$": 0}]},
    {".add_": {"args": [{"$": 0}, 1]}},
)


class PlainestFunctions:
    """Replaces functions in parts with generated graphs, by screening, until the deadline (`time.monotonic`)."""

    def __init__(self, screening: PartScreening, language: str, deadline: float) -> None:
        self._screening = screening
        self._language = language
        self._deadline = deadline

    def of(self, part: Screened) -> Screened:
        """Return a part with as many of its functions as possible replaced by plain ones."""
        for _ in range(MOST_CALLS):
            plainer = self._with_one_more(part)
            if plainer is part:
                break
            part = plainer
        return part

    def _with_one_more(self, part: Screened) -> Screened:
        graph = self._screening.graph_as_it_failed(part)
        if graph is None or graph.grad or graph.transform or not may_be_any_function(part):
            return part
        given = self._screening.inputs(part)
        values = {str(number): array for number, array in zip(graph.inputs, given.values(), strict=True)}
        for forms in with_plain_function(read_generated(graph), OF_TABLE):
            if time.monotonic() > self._deadline:
                return part
            written = [(form, retyped(write_generated(form, graph), self._language)) for form in forms]
            requests = [
                self._screening.on_arrays(plain, values, [leaf.number for leaf in form.leaves])
                for form, plain in written
                if plain is not None
            ]
            plain = fails_with_both(self._screening.screen(requests), part)
            if plain and self._is_smallest(plain):
                return plain
        return part

    def _is_smallest(self, part: Screened) -> bool:
        smallest, *_ = SmallestParts(self._screening, self._deadline).of(part)
        return smallest is part and time.monotonic() < self._deadline  # otherwise not all smaller parts were tried


def may_be_any_function(part: Screened) -> bool:
    """True if replacing functions is worth a try. A failure that shows only in a later call is another bug."""
    return not part.sample and part.kind not in _TOO_DEAR


def fails_with_both(answers: list[Screened], part: Screened) -> Screened | None:
    """Return the plainer of two results if both fail as the part does, else None."""
    alike = [answer for answer in answers if same_failure(answer, part) and not answer.sample]
    return alike[0] if len(alike) == 2 else None


def with_plain_function(base: Evaluated, plain: PlainFunctions) -> Iterator[list[ProgramGraph]]:
    """Yield pairs of the program in which one call is replaced by two other functions. Only calls whose result is like
    their first operand are replaced; their other operands are dropped if they come from outside. A call with several
    results stays."""
    graph, types = base.graph, base.types
    if not 1 < len(graph.operators) <= MOST_CALLS:
        return
    for at, node in enumerate(graph.nodes):
        if node.free or not node.operands or len(node.outputs) != 1:
            continue
        first, *others = node.operands
        kind = types.get(first)
        if kind is None or not is_float(kind.dtype) or not kind.fits(types.get(node.outputs[0])):
            continue
        if any(number in graph.producers for number in others if number != first):
            continue
        beside = [other.op for other in graph.nodes if other is not node]
        if calls := plain.instead_of(node, beside):
            yield [_without_unread(replace(graph, nodes=(*graph.nodes[:at], c, *graph.nodes[at + 1 :]))) for c in calls]


def _without_unread(graph: ProgramGraph) -> ProgramGraph:
    read = {number for node in graph.nodes for number in node.operands} | set(graph.outputs)
    return replace(graph, leaves=tuple(leaf for leaf in graph.leaves if leaf.number in read))


def _spelled(operators: Collection[str]) -> frozenset[str]:
    return spelled_alike(map(short_name, operators))
