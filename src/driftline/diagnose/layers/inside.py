"""A program whose intermediate values can be returned: its taps, and versions of it that return some of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driftline.checking.checker import Checker
from driftline.checking.kinds import worker_for_framework
from driftline.checking.written import write_case
from driftline.core.case import Case, Inputs
from driftline.core.program import Program, file_digest
from driftline.core.task import Answer, Request, Task
from driftline.core.tensors import Arrays, save_tensors
from driftline.execute.pool import WorkerStartError
from driftline.programs.taps.requests import FIND, WRITE_TAPPED, FindRequest, TapRequest
from driftline.programs.taps.tap import Tap


class NoView(Exception):
    """The program's intermediate values cannot be returned; the message says why."""


@dataclass(frozen=True)
class Inside:
    """A program as a graph with one input sample. `case` holds the graph as its program."""

    checker: Checker
    case: Case
    taps: tuple[Tap, ...]

    def tapped(self, taps: Sequence[str], cuts: Mapping[str, Any], *, returned: bool) -> Case:
        """Return the case of a program whose outputs are the values `taps`, followed by its own results if `returned`.
        The values in `cuts` become inputs.
        """
        folder = self.checker.pool.workspace.job_folder()
        values = folder / "cut_values"
        if cuts:
            save_tensors(values, cuts)
        # The weights of a big model lie beside its file, and must lie beside the tapped one too.
        output = (self.case.program.path.parent if self.case.program.data else folder) / f"tapped-{folder.name}"
        files = write_case(self.checker.pool.workspace, self.case)
        request = TapRequest(files, tuple(taps), tuple(cuts), values, returned, output)
        answer = _ask(self.checker, self.case, WRITE_TAPPED, request)
        if answer.form is None:
            raise _cannot(self.case, answer.problem)
        given: Arrays = {**self.case.samples[0].arrays, **{f"cut.{n}": a for n, a in enumerate(cuts.values())}}
        inputs = answer.form.inputs
        program = replace(
            self.case.program,
            digest=file_digest(output),
            path=output,
            inputs=inputs,
            outputs=answer.form.outputs,
            operators=(),
            state="",
            origin="",
        )
        arrays = {spec.name: given[name] for spec, name in zip(inputs, answer.form.order, strict=True)}
        return replace(self.case, program=program, samples=(Inputs(arrays, self.case.samples[0].origin),))


def look_into(checker: Checker, case: Case) -> Inside:
    """Return a case, which must have one sample, as a graph with known intermediate values. Raise `NoView` if that is
    impossible.
    """
    program = case.program
    if program.framework not in ("torch", "onnx"):
        raise NoView(f"programs of {program.framework} cannot be looked into; torch programs and ONNX models can")
    if case.options.grad:
        raise NoView("gradients have no view layer by layer; leave --grad out")
    graph = checker.pool.workspace.job_folder() / "graph.pt2"
    answer = _ask(checker, case, FIND, FindRequest(write_case(checker.pool.workspace, case), graph))
    if answer.problem:
        raise _cannot(case, answer.problem)
    if answer.exported:
        case = replace(case, program=_as_graph(program, graph))
    return Inside(checker, case, answer.taps)


def _as_graph(program: Program, path: Path) -> Program:
    return replace(program, form="torch", digest=file_digest(path), path=path, state="", origin="")


def _ask(checker: Checker, case: Case, task: Task[Request, Answer], request: Request) -> Answer:
    options, program = case.options, case.program
    try:
        report = checker.pool.run(
            worker_for_framework(program.framework, options.plugins),
            task,
            request,
            timeout=options.timeout,
            memory_limit=options.memory_limit,
        )
    except WorkerStartError as error:
        raise NoView(f"{program.framework} cannot be started: {error}") from error
    if report.answer is None:
        raise _cannot(case, f"{report.ending} ({report.detail})")
    return report.answer


def _cannot(case: Case, why: str) -> NoView:
    return NoView(f"{case.program.name} could not be taken apart: {why}")
