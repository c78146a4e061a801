"""Reviews rows: does a failing row agree if its target may compute less precisely?

Used for the rows of `driftline check`, and for failures that a hunt is about to record. Screening, audits and the
searches that explain a failure judge strictly: whether less precision is good enough is decided by the person who
deploys the model (`accept.py`).
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

from driftline.backends import BACKENDS
from driftline.checking.accept import accepts_any
from driftline.checking.checker import Checker, TargetResult
from driftline.core.case import Case
from driftline.core.execution import Execution, Outcome
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Verdict
from driftline.oracle.effect import effect_of
from driftline.oracle.judge import NoShadow, Reference
from driftline.oracle.policies import does, explained_by, is_of_precision, may, plausible, program_uses


def reviewed(checker: Checker, case: Case, result: TargetResult, reference: Reference) -> TargetResult:
    """Return the row with the arithmetic that explains it and its effect on the highest scores. Nothing is run
    again."""
    if result.execution.outcome is not Outcome.OK or result.execution.problem or reference.problem:
        return result
    if result.verdict.judgement is Judgement.INCONCLUSIVE or reference.random:
        return result  # no results were compared
    execution, reference = checker.sides(case, result.execution, reference)
    with contextlib.suppress(NoShadow):  # without a shadow, the row stays as it is
        result = _explained(checker, case, result, execution, reference)
    positional = checker.trait(case, result.target, execution).positional
    return replace(result, effect=effect_of(execution.outputs, reference.samples, positional=positional))


def _explained(
    checker: Checker, case: Case, result: TargetResult, execution: Execution, reference: Reference
) -> TargetResult:
    trait = checker.trait(case, result.target, execution)
    if result.flaky or (result.blame and case.deployed) or not is_of_precision(result.verdict, trait):
        return result
    uses = program_uses(reference, trait.arithmetic)
    candidates = plausible(uses, reference, trait.arithmetic, on_gpu=runs_on_gpu(result.target))
    policies = explained_by(result.verdict, execution, reference, trait, candidates)
    if not policies:
        return result
    first = result.verdict
    if accepts_any(case.options.accept, result.target):
        told = replace(first.evidence, policies=policies, accepted=policies, otherwise=first.reason)
        agreed = Verdict(Judgement.PASS, f"agrees; {does(policies, uses)}, as accepted", evidence=told)
        return replace(result, verdict=agreed)
    evidence = replace(
        first.evidence, policies=policies, accept=accepting(result.target, policies), otherwise=first.reason
    )
    reason = f"agrees if it may {may(policies, uses)}"
    return replace(result, verdict=Verdict(Judgement.REDUCED, reason, first.kind, evidence))


def accepting(target: Target, policies: tuple[str, ...]) -> str:
    """Return the option that accepts these policies for a target."""
    return f"--accept {target.backend}={'+'.join(policies)}"


def runs_on_gpu(target: Target) -> bool:
    device = dict(target.options).get("device") or BACKENDS.get(target.backend).devices[0]
    return device != "cpu"
