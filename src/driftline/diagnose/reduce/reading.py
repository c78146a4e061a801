"""Read a case into a form that can be reduced: a graph, read by a worker, or text; and evaluate graphs."""

from __future__ import annotations

from pathlib import Path

from driftline.checking.checker import Checker
from driftline.checking.kinds import worker_for_framework
from driftline.checking.written import write_case
from driftline.core.case import Case
from driftline.core.program import SourceBundle
from driftline.core.task import Answer, Request, Task
from driftline.diagnose.reduce.asking import Asker, CandidateWriter
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph
from driftline.diagnose.reduce.question import CandidateQuestion
from driftline.diagnose.reduce.requests import EVALUATE, READ, EvaluateRequest, GraphCandidate, ReadRequest, TextFrame
from driftline.diagnose.reduce.text import ProgramText, plain_text, with_inputs
from driftline.diagnose.reduce.values import Values, roughness
from driftline.execute.messages import Ending
from driftline.execute.pool import TaskReport

TRACERS = ("dynamo", "export", "make_fx")


class Reader:
    """Reads the case of a question. Values are stored in the folder of `Values`."""

    def __init__(self, checker: Checker, question: CandidateQuestion, folder: Path) -> None:
        self._pool = checker.pool
        self._question = question
        self._folder = folder
        self._values = Values(folder)
        self._evaluations: dict[str, Evaluated] = {}

    def graph(self, tracer: str = "") -> ProgramGraph | None:
        """Return the program as a graph, or None if this tracer cannot trace it or the graph cannot be written."""
        case = self._question.case
        request = ReadRequest(write_case(self._pool.workspace, case), self._folder, tracer)
        report = self._run(READ, request, fresh=True)  # a user's module leaves traces
        if report.ending is Ending.DIED:  # something else may have killed the worker
            report = self._run(READ, request, fresh=True)
        found = report.answer
        if found is None or found.evaluated is None:
            return None
        evaluated = found.evaluated
        self._evaluations[evaluated.graph.key] = evaluated
        return evaluated.graph

    def text(self) -> tuple[ProgramText, TextFrame]:
        """Return the program as text, and the other files that its writer needs."""
        case = self._question.case
        bundle = SourceBundle.load(case.program.path.read_bytes())
        inputs: dict[str, str] = {}
        shapes: dict[str, tuple[str, tuple[int, ...], int]] = {}
        for name, array in case.samples[0].arrays.items():
            arrays = [sample.arrays[name] for sample in case.samples]
            inputs[name] = self._values.save(arrays)
            shapes[name] = (array.dtype.name, tuple(array.shape), roughness(arrays))
        start = with_inputs(ProgramText(plain_text(bundle.text), bundle.entry_name, inputs, shapes), self._values)
        siblings = {name: text for name, text in bundle.files.items() if name != bundle.entry_file}
        return start, TextFrame(siblings, bundle.entry_name)

    def evaluate(self, graph: ProgramGraph) -> Evaluated:
        """Return the values of a graph. If the worker dies, only the leaves are known."""
        known = self._evaluations.get(graph.key)
        if known and known.graph == graph:
            return known
        case = self._question.case
        request = EvaluateRequest(graph, case.program.framework, self._folder, len(case.samples))
        found = self._run(EVALUATE, request).answer
        leaves = graph.leaf.values()
        evaluated = found or Evaluated(graph, {v.number: v.type for v in leaves}, {v.number: v.data for v in leaves})
        self._evaluations[graph.key] = evaluated
        return evaluated

    def _run(self, task: Task[Request, Answer], request: Request, *, fresh: bool = False) -> TaskReport[Answer]:
        case = self._question.case
        worker = worker_for_framework(case.program.framework, case.options.plugins)
        return self._pool.run(worker, task, request, timeout=self._question.timeout * 2, fresh=fresh)


def written_anew(checker: Checker, question: CandidateQuestion) -> Case | None:
    """Return the case of a torch program written as text, using the first tracer that can read it; None if none can."""
    folder = checker.pool.workspace.job_folder() / "values"
    reader = Reader(checker, question, folder)
    for tracer in TRACERS:
        if graph := reader.graph(tracer):
            asker = Asker(checker, question, CandidateWriter(checker, question, folder), GraphCandidate)
            if case := asker.case_of(graph):
                return case
    return None
