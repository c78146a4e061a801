"""The settings of a target that a failure needs: without them the target passes. They are part of a bug's name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from driftline.backends import resolve
from driftline.checking.checker import Checker, TargetResult
from driftline.checking.precision import reviewed
from driftline.core.case import Case
from driftline.core.identity import MOST_OPERATORS, with_setting
from driftline.core.processor import this_processor
from driftline.core.rule import ONE_PASS
from driftline.core.target import Target
from driftline.core.verdict import Judgement
from driftline.oracle.judge import Reference
from driftline.programs.operators import operators_of


def changed_settings(target: Target) -> list[str]:
    """Return the options of a target that are compiler settings: those that a hunt may vary, and the compiler's own."""
    backend = resolve(target)
    varied = {name for each in (*backend.varied_settings(this_processor()), *backend.loop_settings()) for name in each}
    return [name for name, _ in target.options if name != ONE_PASS and (name in varied or backend.is_setting(name))]


def targets_without(target: Target) -> Iterator[tuple[str, Target]]:
    """Yield, for each changed setting of a target, the setting as a circumstance and the target without the setting."""
    values = dict(target.options)
    for name in changed_settings(target):
        rest = tuple((key, value) for key, value in target.options if key != name)
        yield with_setting(name, values[name]), replace(target, options=rest)


def with_needed_settings(checker: Checker, case: Case, result: TargetResult, reference: Reference) -> Case:
    """Return the case with the target settings that the failure needs among its program's circumstances; each setting
    takes an experiment. Large programs are returned unchanged: their bugs are named by a digest."""
    if case.deployed or not 0 < len(operators_of(case.program)) <= MOST_OPERATORS:
        return case
    needed = []
    for setting, plainer in targets_without(result.target):
        again = checker.check(case.only(plainer), known_reference=reference, review=partial(reviewed, checker))
        if [row.verdict.judgement for row in again.results] == [Judgement.PASS]:
            needed.append(setting)
    program = case.program
    return replace(case, program=replace(program, circumstances=(*program.circumstances, *needed))) if needed else case
