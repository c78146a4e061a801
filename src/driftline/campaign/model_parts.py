"""Inside an ONNX model: which of its nodes fail by themselves?

An operator of ours may be several nodes (`var` sums and divides), and idioms and the tests of others are models that
nobody drew as a graph of ours. The reducer reads such a model (`diagnose/reduce`); its nodes are run alone, then two
and three together, on what they are given in the whole. What fails there is the bug, and has one name wherever it is
met.
"""

from __future__ import annotations

import operator
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from driftline.campaign.part_screening import PART, PartScreening
from driftline.campaign.smallest_parts import Cutting, same_failure
from driftline.checking.batch import Screened
from driftline.checking.batch_requests import Prepared, PreparedProgram
from driftline.checking.kinds import worker_for_framework
from driftline.checking.written import write_case
from driftline.core.task import Answer, Request, Task
from driftline.core.tensors import is_float, numpy_dtype
from driftline.core.verdict import VALUE_KINDS
from driftline.diagnose.reduce.generated import plainer_than
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph
from driftline.diagnose.reduce.leaves import changed
from driftline.diagnose.reduce.requests import NO_FRAME, READ, WRITE, GraphCandidate, ReadRequest, WriteRequest
from driftline.diagnose.reduce.values import Values
from driftline.execute.pool import Pool
from driftline.generate.kernels import MOVEMENT

PATIENCE = 20.0  # seconds for one model


class ModelParts:
    """Finds them, by screening, until the deadline (`time.monotonic`)."""

    def __init__(self, pool: Pool, screening: PartScreening, deadline: float) -> None:
        self._pool = pool
        self._screening = screening
        self._deadline = min(deadline, time.monotonic() + PATIENCE)

    def of(self, failing: Screened) -> list[Screened]:
        """The smallest sets of nodes that fail as the model does; nothing when there is none but the model itself."""
        assert failing.made
        graph = failing.made.graph
        if failing.made.program.form != "onnx" or (graph and graph.varying):  # what fails at a second size is one whole
            return []
        model = _FailingModel(self._pool, self._screening, failing)
        if model.base is None or len(model.base.graph.nodes) < 2:
            return []

        def explains(part: Screened) -> bool:
            """A wrong result may come of any other one; an error or a crash is that of the part."""
            if failing.kind not in VALUE_KINDS:
                return (part.kind, part.evidence.message) == (failing.kind, failing.evidence.message)
            return part.kind in VALUE_KINDS and bool(part.evidence.policies) <= bool(failing.evidence.policies)

        found = Cutting(failing, model.base, model.screened, self._deadline, explains).parts()
        return [self._plainest(part) for part in found if part is not failing and explains(part)]

    def _plainest(self, part: Screened) -> Screened:
        """In the plainest dtype in which it still fails in the same way."""
        for _ in range(2):  # once for floats, once for integers
            model = _FailingModel(self._pool, self._screening, part)
            if model.base is None or time.monotonic() > self._deadline:
                return part
            answers = model.screened(list(model.in_plainer_dtypes()))
            same = next((answer for answer in answers if same_failure(answer, part)), None)
            if same is None:
                return part
            part = same
        return part


class _FailingModel:
    """The model of a failing program with all that it computes, on what it failed on: all calls up to that one, since
    it may have been right in a first call."""

    def __init__(self, pool: Pool, screening: PartScreening, failing: Screened) -> None:
        self._pool = pool
        self._screening = screening
        self._case = screening.calls(failing)
        self._folder = screening.new_folder()
        files = write_case(pool.workspace, self._case)
        read = self._run(READ, ReadRequest(files, self._folder / "values"))
        shutil.rmtree(files.folder, ignore_errors=True)
        self.base: Evaluated | None = read.evaluated if read else None

    def in_plainer_dtypes(self) -> Iterator[ProgramGraph]:
        """The same nodes on operands of plainer dtypes, the plainest first. Integers that are constant stay what they
        are: most are axes and sizes, whose dtype is prescribed."""
        assert self.base
        graph, values = self.base.graph, Values(self._folder / "values")
        moved = all(node.op in MOVEMENT for node in graph.nodes)
        for old in sorted({leaf.type.dtype for leaf in graph.leaves if not leaf.constant}):
            for new in plainer_than(old, moved=moved):
                cast = operator.methodcaller("astype", numpy_dtype(new))
                leaves = (
                    changed(values, leaf, cast)
                    if leaf.type.dtype == old and (is_float(old) or not leaf.constant)
                    else leaf
                    for leaf in graph.leaves
                )
                yield replace(graph, leaves=tuple(leaves))

    def screened(self, parts: Sequence[ProgramGraph]) -> list[Screened]:
        """Each part as a model of its own. What cannot be written as one is no program."""
        written = self._written(parts)
        requests = [
            self._screening.of_model(answer, self._coverage(part))
            for part, answer in zip(parts, written, strict=True)
            if isinstance(answer, PreparedProgram)
        ]
        answers = iter(self._screening.screen(requests))
        nothing = Screened(PART, "invalid", "it cannot be written as a model")
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

    def _run(self, task: Task[Request, Answer], request: Request) -> Answer | None:
        options = self._case.options
        worker = worker_for_framework("onnx", options.plugins)
        return self._pool.run(worker, task, request, timeout=options.timeout).answer

    def _coverage(self, part: ProgramGraph) -> tuple[tuple[str, str], ...]:
        """Operators with the dtype of their first operand."""
        assert self.base
        types = dict(self.base.types) | {leaf.number: leaf.type for leaf in part.leaves}
        found = []
        for node in part.nodes:
            kinds = (types.get(number) for number in node.operands)
            found.append((node.op, next((kind.dtype for kind in kinds if kind), "float32")))
        return tuple(found)
