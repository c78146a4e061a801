"""Several calls that fail together, with a plain function in the place of one of them.

A compiler that loses the bias before whichever activation loses it before five, and one that loses writes through views
loses them in `relu_` and `sigmoid_`. What a call needs for such a bug is only that it is one: the part goes by the
plainest function that fails in its place. What is reported was seen to fail, and no smaller part of it does: where
`relu` itself is wrong, that is another bug.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from driftline.campaign.part_screening import PartScreening
from driftline.campaign.plainest import same_failure
from driftline.campaign.smallest_parts import SmallestParts
from driftline.checking.batch import Screened
from driftline.core.tensors import is_float
from driftline.diagnose.reduce.generated import read_generated, write_generated
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph, ProgramNode
from driftline.generate.mutate import retyped


@dataclass(frozen=True)
class PlainFunctions:
    """The plain functions of one operand in some language, the plainest first, and those that write to it."""

    functions: tuple[str, ...]
    in_place: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)  # of each

    def instead_of(self, node: ProgramNode, used: list[str]) -> str | None:
        """The plainest that the program has not yet; none for what is as plain itself."""
        functions = self.in_place if node.effects else self.functions
        if node.op in functions:
            return None
        return next((name for name in functions if name not in used), None)


OF_TABLE = PlainFunctions(("relu", "abs"), ("relu_",))
OF_ONNX = PlainFunctions(("Relu", "Abs"))
OF_TORCH = PlainFunctions(("torch.relu", "torch.abs"), (".relu_",), {"args": [{"$": 0}]})


class PlainestFunctions:
    """Finds them for parts that are graphs of ours, by screening, until the deadline (`time.monotonic`)."""

    def __init__(self, screening: PartScreening, language: str, deadline: float) -> None:
        self._screening = screening
        self._language = language
        self._deadline = deadline

    def of(self, part: Screened) -> Screened:
        graph = self._screening.graph_as_it_failed(part)
        if graph is None or part.sample or graph.grad or graph.transform:
            return part
        given = self._screening.inputs(part)
        values = {str(number): array for number, array in zip(graph.inputs, given.values(), strict=True)}
        requests = []
        for form in with_plain_function(read_generated(graph), OF_TABLE):
            if (plain := retyped(write_generated(form, graph), self._language)) is not None:
                requests.append(self._screening.on_arrays(plain, values, [leaf.number for leaf in form.leaves]))
        for answer in self._screening.screen(requests):
            if same_failure(answer, part) and time.monotonic() < self._deadline and self._is_smallest(answer):
                return answer
        return part

    def _is_smallest(self, part: Screened) -> bool:
        return SmallestParts(self._screening, self._deadline).of(part)[0] is part


def with_plain_function(base: Evaluated, plain: PlainFunctions) -> Iterator[ProgramGraph]:
    """The same program with a plain function in the place of a call that returns what its first operand is like. Its
    other operands are left out, unless they are results."""
    graph, types = base.graph, base.types
    if len(graph.operators) < 2:
        return
    for at, node in enumerate(graph.nodes):
        instead = plain.instead_of(node, graph.operators)
        if instead is None or node.free or not node.operands or len(node.outputs) != 1:
            continue
        first, *others = node.operands
        kind = types.get(first)
        if kind is None or not is_float(kind.dtype) or not kind.fits(types.get(node.outputs[0])):
            continue
        if any(number in graph.producers for number in others if number != first):
            continue
        call = replace(node, op=instead, inputs=(first,), attributes=plain.attributes)
        changed = replace(graph, nodes=(*graph.nodes[:at], call, *graph.nodes[at + 1 :]))
        read = {number for one in changed.nodes for number in one.operands} | set(changed.outputs)
        yield replace(changed, leaves=tuple(leaf for leaf in changed.leaves if leaf.number in read))
