"""Bringing together what is known of a bug, before it is written down for others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from driftline.backends import resolve
from driftline.campaign import bisection
from driftline.campaign.failing import Failing, require_one_program
from driftline.campaign.stored import case_to_run
from driftline.causes import Library
from driftline.checking.checker import Checker
from driftline.checking.convert import Conversions
from driftline.core.case import Case
from driftline.core.errors import StoreError
from driftline.core.evidence import Evidence
from driftline.core.execution import Stage
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.tensors import Arrays
from driftline.diagnose.reduce.question import CandidateQuestion
from driftline.diagnose.reduce.reading import written_anew
from driftline.diagnose.reduce.signature import Signature
from driftline.programs.convert import accepts_directly, find_converter
from driftline.programs.operators import operators_of
from driftline.report.annotated import causes_of
from driftline.report.export.subject import Subject
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses
from driftline.store.reductions import Reductions


def subject_of(
    store: Store, checker: Checker, failing: Failing, *, original: bool = False, library: Library | None = None
) -> Subject:
    """Everything about a failure; its reduced case unless the `original` is wanted."""
    require_one_program(failing.case, "export")
    known = Diagnoses(store)
    reduction = None if original else Reductions(store).of(failing.bug.id)
    case, verdict = failing.case, failing.finding.verdict
    if reduction:
        case = case_to_run(store, reduction["case"]).only(Target.parse(reduction["target"]))
        verdict = reduction["verdict"] or verdict
    expected = _expected(store, checker, case, failing, verdict if reduction else None)
    return Subject(
        bug=failing.bug,
        finding=failing.finding,
        case=case,
        verdict=verdict,
        operators=operators_of(case.program),
        converted=_converted(checker, case, failing),
        rewritten=_rewritten(store, checker, case, failing),
        expected=expected,
        reduction=reduction,
        bisection=known.of(failing.bug.id, bisection.STEP),
        ablation=known.of(failing.bug.id, "ablate"),
        localization=known.of(failing.bug.id, "localize"),
        causes=causes_of(failing.bug, library),
    )


def _expected(
    store: Store, checker: Checker, case: Case, failing: Failing, reduced: Mapping[str, Any] | None
) -> Arrays:
    """What should come out for the failing sample: as it was kept, or asked once more. `reduced`: the verdict on the
    reduced case, where it is asked about that one."""
    digest = (failing.finding.verdict.get("artifacts") or {}).get("expected")
    if digest and reduced is None:
        try:
            return store.load_tensors(digest)
        except (StoreError, OSError, ValueError):
            pass
    samples = checker.reference(case).samples
    found = failing.finding.evidence if reduced is None else Evidence.from_json(reduced.get("evidence") or {})
    index = found.sample or 0
    return dict(samples[index].native) if index < len(samples) and not samples[index].failure else {}


def _converted(checker: Checker, case: Case, failing: Failing) -> Program | None:
    """The model that the compiler was given, where it was made from another form and is not itself the culprit."""
    program, accepts = case.program, resolve(case.targets[0]).accepts
    if failing.finding.verdict.get("blame") or failing.bug.fingerprint.stage == Stage.CONVERT:
        return None
    if program.framework == "onnx" or accepts_directly(program.form, program.framework, accepts):
        return None
    link = find_converter(program.form, program.framework, accepts)
    if link is None or link.form != "onnx":
        return None
    made = Conversions(checker.pool).convert(case, link).program
    return replace(made, framework="onnx") if made else None


def _rewritten(store: Store, checker: Checker, case: Case, failing: Failing) -> Case | None:
    """A torch.export archive as text that people can read, with the failing inputs in it."""
    if case.program.form != "torch":
        return None
    sample = failing.finding.evidence.sample or 0
    signature = Signature.of_finding(failing.finding.verdict, failing.finding.execution)
    question = CandidateQuestion(replace(case, samples=case.samples[sample : sample + 1]), case.targets[0], signature)
    made = written_anew(checker, question)
    return case_to_run(store, store.save_case(made)) if made else None  # the workers' files end with the workers
