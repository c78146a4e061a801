"""A failing program as its compiler sees it: its calls, with all values up to the failing one.

Parts of it, and the same calls on other operands, are written as programs and screened.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from driftline.campaign.triage.part_screening import PART, PartScreening
from driftline.campaign.triage.plainest import of_floats
from driftline.checking.batch import Screened
from driftline.checking.batch_requests import Prepared, PreparedProgram, ProgramRequest
from driftline.checking.kinds import worker_for_framework
from driftline.checking.written import write_case
from driftline.core.handover import remove_folder
from driftline.core.spelling import spelled_alike
from driftline.core.task import Answer, Request, Task
from driftline.core.tensors import numpy_dtype
from driftline.diagnose.reduce.generated import plainer_than
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph, ProgramLeaf, ProgramNode, short_name
from driftline.diagnose.reduce.leaves import ArrayChange, changed
from driftline.diagnose.reduce.requests import NO_FRAME, READ, WRITE, GraphCandidate, ReadRequest, WriteRequest
from driftline.diagnose.reduce.values import Values
from driftline.execute.pool import Pool
from driftline.generate.graph import Graph
from driftline.generate.kernels import MOVEMENT
from driftline.generate.naming import operators_named, usual_names

OF_AXES = "int64"  # the dtype of axes and sizes
TURNED = {"T": "transpose", "mT": "transpose"}  # attributes that are also functions of torch
TO_FLOAT = {"to": {"i": 1}}  # the attributes of an ONNX Cast to `PLAIN_FLOAT`, as the reducer reads them
TRACERS = {"onnx": "", "torch": "dynamo"}  # by framework: how the reducer reads a program, to see it as a compiler does


class FailingProgram:
    """A failing program with all values that it computes, in all calls up to the failing one, since earlier calls may
    have been right."""

    def __init__(self, pool: Pool, screening: PartScreening, failing: Screened) -> None:
        self._pool = pool
        self._screening = screening
        self._case = screening.calls(failing)
        self._folder = screening.new_folder()
        files = write_case(pool.workspace, self._case)
        tracer = TRACERS[self._case.program.framework]
        read = self._run(READ, ReadRequest(files, self._folder / "values", tracer))
        remove_folder(files.folder)
        self.base: Evaluated | None = read.evaluated if read else None

    @property
    def dtypes(self) -> list[str]:
        """The dtypes of the operands that are not constant."""
        assert self.base
        return [leaf.type.dtype for leaf in self.base.graph.leaves if not leaf.constant]

    @property
    def values(self) -> Values:
        return Values(self._folder / "values")

    def holding(self, change_of: Callable[[ProgramLeaf], ArrayChange]) -> ProgramGraph:
        """Return the same operators on changed operands; constants stay."""
        assert self.base
        graph, values = self.base.graph, self.values
        leaves = (leaf if leaf.constant else changed(values, leaf, change_of(leaf)) for leaf in graph.leaves)
        return replace(graph, leaves=tuple(leaves))

    def numbers(self) -> Iterator[Collection[int]]:
        """Yield sets of leaves to try as floats: first without constants, which may be axes, then with them."""
        assert self.base
        leaves = self.base.graph.leaves
        tried: list[Collection[int]] = []
        for some in ([leaf for leaf in leaves if not leaf.constant], leaves):
            chosen = [{some[at].number for at in places} for places in of_floats([leaf.type.dtype for leaf in some])]
            tried += [numbers for numbers in chosen if numbers not in tried]
        yield from tried

    def changing(self, numbers: Collection[int], change: ArrayChange) -> ProgramGraph:
        """Return the same operators with changed operands at these leaves. Where a leaf becomes a float, casts back to
        its old dtype become casts to float."""
        assert self.base
        graph, values, types = self.base.graph, self.values, self.base.types
        leaves = [changed(values, leaf, change) if leaf.number in numbers else leaf for leaf in graph.leaves]
        pairs = zip(graph.leaves, leaves, strict=True)
        were = {old.type.dtype for old, new in pairs if new.type.dtype != old.type.dtype}

        def cast_back(node: ProgramNode) -> bool:
            kind = types.get(node.outputs[0]) if node.op == "Cast" else None
            return kind is not None and kind.dtype in were

        nodes = (replace(node, attributes=TO_FLOAT) if cast_back(node) else node for node in graph.nodes)
        return replace(graph, leaves=tuple(leaves), nodes=tuple(nodes))

    def in_plainer_dtypes(self) -> Iterator[ProgramGraph]:
        """Yield the same operators on operands of plainer dtypes, the plainest first. Constant axes and sizes stay."""
        assert self.base
        graph, values = self.base.graph, self.values
        moved = all(node.op in MOVEMENT for node in graph.nodes)
        for old in sorted(set(self.dtypes)):
            for new in plainer_than(old, moved=moved):
                cast = operator.methodcaller("astype", numpy_dtype(new))
                leaves = (
                    changed(values, leaf, cast)
                    if leaf.type.dtype == old and not (leaf.constant and old == OF_AXES)
                    else leaf
                    for leaf in graph.leaves
                )
                yield replace(graph, leaves=tuple(leaves))

    def screened(
        self, parts: Sequence[ProgramGraph], change: Callable[[ProgramRequest], ProgramRequest] | None = None
    ) -> list[Screened]:
        """Screen each part as a program of its own, after `change` if given. A part that cannot be written as a program
        gives an invalid result."""
        written = self._written(parts) if parts else []
        requests = [
            self._screening.of_program(answer, self._coverage(part))
            for part, answer in zip(parts, written, strict=True)
            if isinstance(answer, PreparedProgram)
        ]
        answers = iter(self._screening.screen([change(request) for request in requests] if change else requests))
        nothing = Screened(PART, "invalid", "it cannot be written as a program")
        return [next(answers) if isinstance(answer, PreparedProgram) else nothing for answer in written]

    def _written(self, parts: Sequence[ProgramGraph]) -> Sequence[Prepared | None]:
        options, program = self._case.options, self._case.program
        request = WriteRequest(
            self._screening.new_folder(),
            self._folder / "values",
            tuple(map(GraphCandidate, parts)),
            refer=False,
            framework=program.framework,
            name=program.name,
            origins=tuple(sample.origin for sample in self._case.samples),
            grad=False,
            seed=options.seed,
            company="plain",
            frame=NO_FRAME,
            meaningful=False,
            allowed=None,
            plugins=options.plugins,
        )
        answer = self._run(WRITE, request)
        return answer.programs if answer else [None] * len(parts)

    def is_named_like(self, graph: Graph) -> bool:
        """True if its operators are those of the graph from which it was written. (`complex_abs` calls `torch.abs`.)"""
        assert self.base
        called = usual_names(self._coverage(self.base.graph))
        return spelled_alike(called) == spelled_alike(operators_named(graph))

    def _run(self, task: Task[Request, Answer], request: Request) -> Answer | None:
        options = self._case.options
        worker = worker_for_framework(self._case.program.framework, options.plugins)
        return self._pool.run(worker, task, request, timeout=options.timeout).answer

    def _coverage(self, part: ProgramGraph) -> tuple[tuple[str, str], ...]:
        """Return the operators of a part, each with the dtype of its first operand."""
        assert self.base
        types = dict(self.base.types) | {leaf.number: leaf.type for leaf in part.leaves}
        found = []
        for node in part.nodes:
            if node.free:  # selects one of several results
                continue
            kinds = (types.get(number) for number in node.operands)
            dtype = next((kind.dtype for kind in kinds if kind), "float32")
            onnx = self._case.program.form == "onnx"
            found.append((node.op if onnx else torch_name(called(node), len(node.operands), dtype), dtype))
        return tuple(found)


def called(node: ProgramNode) -> str:
    """Return the name that a torch node calls. A read attribute goes by its own name, not by `getattr`."""
    if node.op != "getattr":
        return node.op
    name = str(node.attributes["args"][1])
    return TURNED.get(name, name)


def torch_name(op: str, tensors: int, dtype: str) -> str:
    """Return a name that tells operators apart: `max` of one tensor is a reduction, and `&` of integers is not
    logical."""
    name = short_name(op)
    if name in ("max", "min") and tensors == 1:
        return f"a{name}"
    if name in ("and", "or", "xor") and op.startswith("operator.") and dtype != "bool":
        return f"bitwise_{name}"
    return name
