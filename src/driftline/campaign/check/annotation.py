"""The facts about a failure that causes are matched against, collected when the failure is recorded."""

from __future__ import annotations

import platform

from driftline.campaign.check.experiments import answered
from driftline.causes import Library, Sighting
from driftline.causes.sighting import machine_name
from driftline.checking.checker import Checker, TargetResult
from driftline.core.case import Case
from driftline.core.identity import AFTER_ANOTHER_CALL, identify
from driftline.core.spelling import spelled_alike
from driftline.programs.operators import operators_of
from driftline.programs.settings import settings_of


def sighting_of(case: Case, result: TargetResult) -> Sighting:
    """Return the facts of a failure that need no experiment."""
    verdict = result.verdict
    evidence, operators = verdict.evidence, operators_of(case.runs)
    found = identify(case.runs, operators, result.target, result.execution, verdict, result.blame)
    dtypes = {spec.dtype for spec in case.runs.inputs} | {evidence.dtype}
    return Sighting(
        backend=found.backend,
        kind=found.kind,
        evidence=evidence,
        version=result.execution.version,
        machine=machine_name(platform.machine()),
        stage=found.stage,
        operators=spelled_alike(operators),
        dtypes=frozenset(dtypes - {""}),
        empty=any(not array.size for sample in case.samples for array in sample.arrays.values()),
        later_call=AFTER_ANOTHER_CALL in case.runs.circumstances,
        settings=settings_of(case.runs),
        options=dict(result.target.options),
    )


def examined(checker: Checker, case: Case, result: TargetResult, library: Library) -> Sighting:
    """Return the facts of a failure, with the answers of the experiments that the causes in `library` ask for."""
    seen = sighting_of(case, result)
    answers = answered(checker, case, result, seen, library)
    return Sighting(**{**vars(seen), "answers": answers})
