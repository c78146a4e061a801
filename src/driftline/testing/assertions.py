"""Checks for tests: they raise `AssertionError` with the verdict, its evidence and the command that shows it again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

from driftline.api import check_script, shared_checker
from driftline.campaign.check.scripts import ScriptKeywords
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
from driftline.scenarios.check import ScriptCheck


class ScenarioKeywords(ScriptKeywords, total=False):
    """The settings of `assert_scenario`: those of a script's check, and the store."""

    store: str | Path | None


class JudgedWrong(AssertionError):
    """Raised when a compiler or a result is judged wrong. Any other problem of a test raises another exception."""


def failure_text(result: CheckResult) -> str:
    """Describe the failed targets of a check: verdict, reason, worst element, and the commands to run next."""
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
    """Check that `actual` is what `program` computes for `inputs`, within the error that legal rounding allows.

    For results that come from elsewhere: a device, a log, another team. `program` is an nn.Module or torch function, an
    ONNX model, or a name such as 'file.py:make'; `inputs` are its arguments, as a tuple or a dict. There is no
    tolerance to choose: it is computed from the program for each element. `expected`, if it is not None, is checked in
    the same way, so that a wrong expectation is not mistaken for a wrong result. `arithmetic` is the arithmetic that
    the device declares, as in `onnxruntime:arithmetic=half-accumulation`.

    Raises `JudgedWrong` if a result is wrong, and `DriftlineError` if it cannot be judged.
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


def assert_scenario(scenario: Callable[[Any], object] | str, **settings: Unpack[ScenarioKeywords]) -> None:
    """Check that a function behaves the same with and without the compiler, call by call, in everything that a user can
    observe.

    `scenario` is a function at the top level of its file whose only parameter is `compile`, or `FILE.py:NAME`. A worker
    executes the file and calls the function; modules that the file imports must be installed. `settings` are those of
    `driftline.check_script`.

    Raises `JudgedWrong` if a target differs from eager, and `DriftlineError` if no target could be compared.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    found = check_script(scenario if isinstance(scenario, str) else _place_of(scenario), **settings)
    if found.failed:
        raise JudgedWrong(_scenario_text(found))
    if not found.compared:
        raise DriftlineError(f"No target was compared: {found.results[0].reason}.")


def _place_of(scenario: Callable[[Any], object]) -> str:
    """Return the function as `FILE.py:NAME`. Raises `DriftlineError` if it is not at the top level of a file."""
    file = inspect.getsourcefile(scenario)
    if file is None or scenario.__qualname__ != scenario.__name__:
        raise DriftlineError(f"{scenario.__qualname__} is not at the top of a file, which a worker could execute.")
    return f"{file}:{scenario.__name__}"


def _scenario_text(found: ScriptCheck) -> str:
    lines: list[str] = []
    for result in found.results:
        lines += [f"{result.target}: {one.sentence}" for one in result.differences]
        if bug := found.bugs.get(result.target):
            lines.append(f"  replay: {replay_command(bug.id, found.store)}")
    return "\n".join(lines)


def _named(values: Any, what: str) -> Arrays:
    """Convert tensors of any framework (one, a list, or a mapping by name) to NumPy arrays by name."""
    named = values if isinstance(values, Mapping) else flatten(values, what)
    return {name: to_array(value) for name, value in named.items() if is_tensor(value) or hasattr(value, "__array__")}
