"""Take a program apart: its operators, and trials of some of them.

If the compiler is given a converted form of the program, that form is taken apart, provided it fails too. A torch
program is traced in several ways until one shows the failure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from driftline.backends import resolve
from driftline.checking.checker import Checker
from driftline.checking.convert import Conversions
from driftline.checking.kinds import worker_for_framework
from driftline.checking.written import write_case
from driftline.core.case import Case
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.diagnose.localize.part import part, units
from driftline.diagnose.localize.stretches import RecordedRun
from driftline.diagnose.reduce.asking import Asker, CandidateWriter
from driftline.diagnose.reduce.graph import ProgramGraph
from driftline.diagnose.reduce.question import CandidateQuestion
from driftline.diagnose.reduce.reading import TRACERS, Reader
from driftline.diagnose.reduce.requests import READ_ALONE, GraphCandidate, ReadRequest
from driftline.diagnose.reduce.search import CandidateAnswer, Search
from driftline.diagnose.reduce.signature import Signature
from driftline.diagnose.trials import Trials
from driftline.programs.convert import accepts_directly, find_converter
from driftline.programs.onnx.file import load_structure

LARGEST_CONSTANT = 4096  # elements; larger ones are inputs of a torch program that is written as text


class NotApart(Exception):
    """The program cannot be taken apart; the message says why."""


@dataclass
class Apart:
    """A program that was taken apart, its operators, and the search that tests parts of it."""

    form: str
    question: CandidateQuestion  # about the program in this form
    run: RecordedRun
    operators: list[tuple[int, ...]]  # each with its nodes
    asker: Asker
    search: Search[ProgramGraph]
    largest_constant: int | None
    folder: Path
    note: str = ""

    def graph(self, chosen: Collection[int], *, taps: bool = False) -> ProgramGraph | None:
        """Return some operators as a program of their own, or None. `taps`: return every value."""
        nodes = [at for number in chosen for at in self.operators[number]]
        return part(self.run, nodes, largest_constant=self.largest_constant, taps=taps)

    def asked(self, checker: Checker, target: Target, signature: Signature, deadline: float) -> Apart:
        """Return the same parts, to be tested on another target and for another failure."""
        question = replace(self.question, case=self.question.case.only(target), target=target, signature=signature)
        asker = _asker(checker, question, self.folder)
        return replace(
            self, question=question, asker=asker, search=Search(asker.ask, self.run.graph, deadline=deadline)
        )

    def op(self, number: int) -> str:
        return self.run.graph.nodes[self.operators[number][0]].op


def take_apart(checker: Checker, question: CandidateQuestion, deadline: float) -> Apart:
    """Return the program in the first form in which it fails. Raise `NotApart` or `BudgetEnded`."""
    note = ""
    for apart in forms_apart(checker, question, deadline):
        whole = apart.graph(range(len(apart.operators)))
        note = apart.note
        if whole and apart.search.fails(whole):
            return apart
    raise NotApart(note or "the program cannot be taken apart: written anew it does not fail")


def forms_apart(checker: Checker, question: CandidateQuestion, deadline: float) -> Iterator[Apart]:
    """Yield the forms in which the program can be taken apart, whether or not it fails in them. Raise `NotApart` for
    frameworks that cannot be.
    """
    framework = question.case.program.framework
    if framework not in ("torch", "onnx"):
        raise NotApart(f"programs of {framework} are not taken apart; the ladder is all")
    question, origin, note = _in_the_form_of_the_target(checker, question)
    for tracer in TRACERS if question.case.program.framework == "torch" else ("",):
        folder = checker.pool.workspace.job_folder() / "values"
        graph = _read(checker, question.case, tracer, folder)
        if graph is None:
            continue
        form = f"torch graph ({tracer})" if tracer else f"ONNX graph{origin}"
        yield replace(_asked(checker, question, graph, folder, form, deadline), note=note)


def _asked(
    checker: Checker, question: CandidateQuestion, graph: ProgramGraph, folder: Path, form: str, deadline: float
) -> Apart:
    asker = _asker(checker, question, folder)
    run = RecordedRun(graph, Reader(checker, question, folder).evaluate, folder)
    frozen = dict(question.target.options).get("freezing") == "true"
    largest = None if frozen or question.case.program.framework == "onnx" else LARGEST_CONSTANT
    search = Search(asker.ask, graph, deadline=deadline)
    return Apart(form, question, run, units(graph), asker, search, largest, folder)


def _asker(checker: Checker, question: CandidateQuestion, folder: Path) -> Asker:
    return Asker(checker, question, CandidateWriter(checker, question, folder), GraphCandidate)


def _in_the_form_of_the_target(checker: Checker, question: CandidateQuestion) -> tuple[CandidateQuestion, str, str]:
    """Return the question about the converted program if that fails in the same way, with the converter that made it;
    otherwise the original question, with the reason.
    """
    case, target = question.case, question.target
    program, accepts = case.program, resolve(target).accepts
    link = find_converter(program.form, program.framework, accepts)
    if link is None or link.form != "onnx" or accepts_directly(program.form, program.framework, accepts):
        return question, "", ""
    made = Conversions(checker.pool).convert(case, link).program
    if made is None:
        return question, "", ""
    converted = replace(case, program=_as_onnx(made))
    reply = Trials(checker, converted, question.signature, question.votes).ask(target)
    if reply.answer is CandidateAnswer.SAME:
        return replace(question, case=converted), f" made by {link.name}", ""
    return question, "", f"what {link.name} made of it is not wrong as an ONNX model ({reply.reason})"


def _as_onnx(program: Program) -> Program:
    """Return a converted program as an ONNX program, judged by what the ONNX model means."""
    model = load_structure(program.path)
    return replace(program, framework="onnx", outputs=tuple(output.name for output in model.graph.output))


def _read(checker: Checker, case: Case, tracer: str, folder: Path) -> ProgramGraph | None:
    """Return the graph without its values. (`Reader.graph` computes all values at once, which needs too much memory for
    a large model.)
    """
    options = case.options
    report = checker.pool.run(
        worker_for_framework(case.program.framework, options.plugins),
        READ_ALONE,
        ReadRequest(write_case(checker.pool.workspace, case), folder, tracer),
        timeout=options.timeout * 2,
        fresh=True,  # a user's module leaves traces
    )
    return report.answer.graph if report.answer else None
