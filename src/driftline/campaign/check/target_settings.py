"""The settings that a failure needs: those without which its target passes. They are part of a bug's name."""

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
    """Those options of a target that are settings of its compiler: what a hunt may vary, and the compiler's own."""
    backend = resolve(target)
    varied = {name for each in (*backend.varied_settings(this_processor()), *backend.loop_settings()) for name in each}
    return [name for name, _ in target.options if name != ONE_PASS and (name in varied or backend.is_setting(name))]


def targets_without(target: Target) -> Iterator[tuple[str, Target]]:
    """Each changed setting of a target, as a circumstance, and the target without it."""
    values = dict(target.options)
    for name in changed_settings(target):
        rest = tuple((key, value) for key, value in target.options if key != name)
        yield with_setting(name, values[name]), replace(target, options=rest)


def with_needed_settings(checker: Checker, case: Case, result: TargetResult, reference: Reference) -> Case:
    """The case of a failing row, whose program says which settings of the target the failure needs: an experiment for
    each. A program of many operators goes by its digest, to which settings add nothing."""
    if case.deployed or not 0 < len(operators_of(case.program)) <= MOST_OPERATORS:
        return case
    needed = []
    for setting, plainer in targets_without(result.target):
        again = checker.check(case.only(plainer), known_reference=reference, review=partial(reviewed, checker))
        if [row.verdict.judgement for row in again.results] == [Judgement.PASS]:
            needed.append(setting)
    program = case.program
    return replace(case, program=replace(program, circumstances=(*program.circumstances, *needed))) if needed else case
