"""Checks for tests: they raise `AssertionError` with the verdict, its evidence and the command that shows it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftline.api import shared_checker
from driftline.checking.live_program import open_live
from driftline.checking.result import CheckResult
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.structure import flatten
from driftline.core.tensors import Arrays
from driftline.core.verdict import Judgement, Verdict
from driftline.inputs.sizes import NOT_GIVEN
from driftline.oracle.judge import TargetTraits, judge
from driftline.programs.live import is_tensor, to_array
from driftline.report.results import command, replay_command


class JudgedWrong(AssertionError):
    """A compiler, or a result, was judged and is wrong. What else may go wrong in a test is something else."""


def failure_text(result: CheckResult) -> str:
    """What a person needs of the targets that failed: the verdicts, the worst place of each, and what to type next."""
    lines: list[str] = []
    for row in result.results:
        if row.verdict.judgement is not Judgement.FAIL:
            continue
        failed, runs = row.failed_runs
        lines.append(f"{row.target} {row.execution.version}: {row.verdict.kind}")
        lines.append(f"  {row.verdict.reason}")
        if row.blame:
            lines.append(f"  to blame: {row.blame}, not the compiler")
        lines.append(f"  {'flaky' if row.flaky else 'confirmed'}: failed in {failed} of {runs} runs")
        if bug := result.bugs.get(row.target):
            lines.append(f"  replay: {replay_command(bug.id, result.store)}")
            lines.append(f"  explain it: {command('diagnose', bug.id, result.store)}")
    return "\n".join(lines)


def assert_close_by_rounding(actual: Any, expected: Any, program: Any, inputs: Any, *, arithmetic: str = "") -> None:
    """Is `actual` what `program` gives for `inputs`, as far as legal rounding may move it?

    For numbers that come from somewhere else: a device, a log, another team. `program` is an nn.Module or torch
    function, an ONNX model, or a name as in 'file.py:make'; `inputs` are its arguments, as a tuple or a dict. No
    tolerance is chosen: the program says how far each element may move. `expected`, if it is not None, is held against
    the program too, so that a wrong expectation is not taken for a wrong result. `arithmetic` is what the device
    declares, as in `onnxruntime:arithmetic=half-accumulation`.

    Raises `JudgedWrong` when it is wrong, and `DriftlineError` when that cannot be told.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    checker = shared_checker()
    options = CheckOptions()
    opened = open_live(program, inputs, checker.pool, options, NOT_GIVEN)
    sample = Inputs(opened.example or _named(inputs, "inputs"), "given")
    case = Case(opened.program, (sample,), (), options)
    reference = checker.reference(case)

    def verdict_on(values: Any, what: str) -> Verdict:
        execution = Execution(what, Outcome.OK, Stage.RUN, outputs=(_named(values, what),))
        trait = TargetTraits(calls_user_code=False, positional=True, arithmetic=arithmetic)
        return judge(execution, reference, trait)

    if expected is not None:
        theirs = verdict_on(expected, "expected")
        if theirs.judgement is Judgement.FAIL:
            raise JudgedWrong(f"What is expected is not what the program gives: {theirs.kind}\n  {theirs.reason}")
    verdict = verdict_on(actual, "actual")
    if verdict.judgement is Judgement.FAIL:
        told = "It is further from what the program gives than rounding explains"
        raise JudgedWrong(f"{told}: {verdict.kind}\n  {verdict.reason}")
    if verdict.judgement is not Judgement.PASS:
        raise DriftlineError(f"Whether it is right cannot be told: {verdict.reason}")


def _named(values: Any, what: str) -> Arrays:
    """Tensors of any framework, alone, in a list or by name, as arrays with names."""
    named = values if isinstance(values, Mapping) else flatten(values, what)
    return {name: to_array(value) for name, value in named.items() if is_tensor(value) or hasattr(value, "__array__")}
