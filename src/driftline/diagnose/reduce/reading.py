"""A case as something to reduce: its graph, read by a worker, or its text; and what the values of a graph are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driftline.checking.checker import Checker
from driftline.checking.kinds import worker_for_framework
from driftline.core.case import Case
from driftline.core.program import SourceBundle
from driftline.core.tensors import save_tensors
from driftline.diagnose.reduce.asking import Asker, Writer
from driftline.diagnose.reduce.graph import Evaluated, Graph, TensorType
from driftline.diagnose.reduce.question import Question
from driftline.diagnose.reduce.text import Text, plain_text, with_inputs
from driftline.diagnose.reduce.values import Values, roughness

TRACERS = ("dynamo", "export", "make_fx")
_TASKS = "driftline.diagnose.reduce.tasks"


class Reader:
    """Reads the case of a question; numbers go to the folder of `Values`."""

    def __init__(self, checker: Checker, question: Question, folder: Path) -> None:
        self._pool = checker.pool
        self._question = question
        self._folder = folder
        self._values = Values(folder)
        self._evaluations: dict[str, Evaluated] = {}

    def graph(self, tracer: str = "") -> Graph | None:
        """The program as a graph, where it can be traced that way and written again."""
        case = self._question.case
        folder = self._pool.workspace.job_folder()
        paths = []
        for index, sample in enumerate(case.samples):
            paths.append(str(folder / f"input{index}"))
            save_tensors(paths[-1], sample.arrays)
        payload = {
            "program": case.program.to_json(),
            "path": str(case.program.path),
            "inputs": paths,
            "values": str(self._folder),
            "tracer": tracer,
            "grad": case.options.grad,
            "seed": case.options.seed,
            "plugins": list(case.options.plugins),
        }
        found = self._ask("read", payload, fresh=True)  # a user's module leaves traces
        if found is None or "problem" in found:
            return None
        evaluated = _evaluated(found)
        self._evaluations[evaluated.graph.key] = evaluated
        return evaluated.graph

    def text(self) -> tuple[Text, dict[str, Any]]:
        """The program as text, and what its writer needs besides: the other files and the name of the factory."""
        case = self._question.case
        bundle = SourceBundle.load(case.program.path.read_bytes())
        inputs: dict[str, str] = {}
        shapes: dict[str, tuple[str, tuple[int, ...], int]] = {}
        for name, array in case.samples[0].arrays.items():
            arrays = [sample.arrays[name] for sample in case.samples]
            inputs[name] = self._values.save(arrays)
            shapes[name] = (array.dtype.name, tuple(array.shape), roughness(arrays))
        start = with_inputs(Text(plain_text(bundle.text), bundle.entry_name, inputs, shapes), self._values)
        siblings = {name: text for name, text in bundle.files.items() if name != bundle.entry_file}
        return start, {"files": siblings, "entry": bundle.entry_name}

    def evaluate(self, graph: Graph) -> Evaluated:
        """What the values of a graph are. Should the worker not survive it, only the leaves are known."""
        known = self._evaluations.get(graph.key)
        if known and known.graph == graph:
            return known
        case = self._question.case
        payload = {
            "graph": graph.to_json(),
            "framework": case.program.framework,
            "values": str(self._folder),
            "samples": len(case.samples),
        }
        found = self._ask("evaluate", payload)
        leaves = graph.leaf.values()
        evaluated = (
            _evaluated(found)
            if found
            else Evaluated(graph, {v.number: v.type for v in leaves}, {v.number: v.data for v in leaves})
        )
        self._evaluations[graph.key] = evaluated
        return evaluated

    def _ask(self, task: str, payload: Mapping[str, Any], *, fresh: bool = False) -> dict[str, Any] | None:
        case = self._question.case
        worker = worker_for_framework(case.program.framework, case.options.plugins)
        report = self._pool.run(worker, f"{_TASKS}:{task}", payload, timeout=self._question.timeout * 2, fresh=fresh)
        return report.result if report.ending == "done" else None


def written_anew(checker: Checker, question: Question) -> Case | None:
    """The case of a torch program as text, by the first tracer that can read it; nothing when none can."""
    folder = checker.pool.workspace.job_folder() / "values"
    reader = Reader(checker, question, folder)
    for tracer in TRACERS:
        if graph := reader.graph(tracer):
            asker = Asker(checker, question, Writer(checker, question, folder, {}), lambda g: {"graph": g.to_json()})
            if case := asker.case_of(graph):
                return case
    return None


def _evaluated(found: Mapping[str, Any]) -> Evaluated:
    return Evaluated(
        Graph.from_json(found["graph"]),
        {int(n): TensorType.from_json(kind) if kind else None for n, kind in found["types"].items()},
        {int(n): name for n, name in found["data"].items()},
        {int(n): rough for n, rough in found["roughness"].items()},
    )
