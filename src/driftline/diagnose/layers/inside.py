"""A program that can be looked into: its taps, and tapped forms of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driftline.checking.checker import Checker
from driftline.checking.kinds import worker_for_framework
from driftline.core.case import Case, Inputs
from driftline.core.program import Program, file_digest
from driftline.core.tensors import Arrays, TensorSpec, save_tensors
from driftline.execute.pool import WorkerStartError
from driftline.programs.taps.tap import Tap


class NoView(Exception):
    """The program cannot be looked into; the words say why."""


@dataclass(frozen=True)
class Inside:
    """A program as a graph, with one input sample. `case` is that of the graph."""

    checker: Checker
    case: Case
    taps: tuple[Tap, ...]

    def tapped(self, taps: Sequence[str], cuts: Mapping[str, Any], *, returned: bool) -> Case:
        """The case of the graph with the taps as outputs, before its own results if they are `returned` as well; cut
        values are inputs."""
        folder = self.checker.pool.workspace.job_folder()
        values = folder / "cut_values"
        if cuts:
            save_tensors(values, cuts)
        # The weights of a big model lie beside its file, and must lie beside the tapped one too.
        output = (self.case.program.path.parent if self.case.program.data else folder) / f"tapped-{folder.name}"
        answer = _ask(
            self.checker,
            self.case,
            "write",
            {
                "taps": list(taps),
                "cuts": list(cuts),
                "cut_values": str(values),
                "returned": returned,
                "output": str(output),
            },
        )
        given: Arrays = {**self.case.samples[0].arrays, **{f"cut.{n}": a for n, a in enumerate(cuts.values())}}
        inputs = tuple(TensorSpec(s["name"], s["dtype"], tuple(s["shape"])) for s in answer["inputs"])
        program = replace(
            self.case.program,
            digest=file_digest(output),
            path=output,
            inputs=inputs,
            outputs=tuple(answer["outputs"]),
            operators=(),
            state="",
            origin="",
        )
        arrays = {spec.name: given[name] for spec, name in zip(inputs, answer["order"], strict=True)}
        return replace(self.case, program=program, samples=(Inputs(arrays, self.case.samples[0].origin),))


def look_into(checker: Checker, case: Case) -> Inside:
    """The case, which has one sample, as a graph whose values are known. Raises `NoView`."""
    program = case.program
    if program.framework not in ("torch", "onnx"):
        raise NoView(f"programs of {program.framework} cannot be looked into; torch programs and ONNX models can")
    if case.options.grad:
        raise NoView("gradients have no view layer by layer; leave --grad out")
    graph = checker.pool.workspace.job_folder() / "graph.pt2"
    answer = _ask(checker, case, "find", {"graph": str(graph)})
    taps = tuple(Tap.from_json(tap) for tap in answer["taps"])
    if answer.get("exported"):
        case = replace(case, program=_as_graph(program, graph))
    return Inside(checker, case, taps)


def _as_graph(program: Program, path: Path) -> Program:
    return replace(program, form="torch", digest=file_digest(path), path=path, state="", origin="")


def _ask(checker: Checker, case: Case, task: str, more: Mapping[str, Any]) -> dict[str, Any]:
    folder = checker.pool.workspace.job_folder()
    sample = folder / "input0"
    save_tensors(sample, case.samples[0].arrays)
    options, program = case.options, case.program
    payload = {
        "program": program.to_json(),
        "path": str(program.path),
        "inputs": [str(sample)],
        "grad": False,
        "seed": options.seed,
        "plugins": list(options.plugins),
        **more,
    }
    try:
        report = checker.pool.run(
            worker_for_framework(program.framework, options.plugins),
            f"driftline.programs.taps.tasks:{task}",
            payload,
            timeout=options.timeout,
            memory_limit=options.memory_limit,
        )
    except WorkerStartError as error:
        raise NoView(f"{program.framework} cannot be started: {error}") from error
    if report.ending != "done":
        raise NoView(f"{program.name} could not be taken apart: {report.ending} ({report.detail})")
    if "problem" in report.result:
        raise NoView(f"{program.name} could not be taken apart: {report.result['problem']}")
    return report.result
