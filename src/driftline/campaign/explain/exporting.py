"""Collects the known facts of a bug for an export."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from driftline.backends import resolve
from driftline.campaign.check.stored import case_to_run
from driftline.campaign.explain import bisection
from driftline.campaign.explain.failing import Failing, require_one_program
from driftline.campaign.explain.leeway import leeway_of
from driftline.campaign.explain.plain_numbers import PlainNumbers, right_results
from driftline.causes import Library
from driftline.checking.checker import Checker, declared_arithmetic
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
from driftline.oracle.judge import Reference, ReferenceSample
from driftline.programs.convert import accepts_directly, find_converter
from driftline.programs.operators import operators_of
from driftline.report.annotated import causes_of
from driftline.report.export.subject import Subject
from driftline.report.scripts.failure import Leeway
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses
from driftline.store.reductions import Reductions


def subject_of(
    store: Store, checker: Checker, failing: Failing, *, original: bool = False, library: Library | None = None
) -> Subject:
    """Return everything known of a failure; of its reduced case unless `original` is set."""
    require_one_program(failing.case, "export")
    known = Diagnoses(store)
    reduction = None if original else Reductions(store).of(failing.bug.id)
    case, verdict = failing.case, failing.finding.verdict
    if reduction:
        case = case_to_run(store, reduction["case"]).only(Target.parse(reduction["target"]))
        verdict = reduction["verdict"] or verdict
    reference = checker.reference(case)
    expected, right = _results(store, reference, failing, verdict if reduction else None)
    subject = Subject(
        bug=failing.bug,
        finding=failing.finding,
        case=case,
        verdict=verdict,
        operators=operators_of(case.program),
        converted=_converted(checker, case, failing),
        rewritten=_rewritten(store, checker, case, failing),
        expected=expected,
        right=right,
        draws=draws_numbers(checker, case, reference),
        reduction=reduction,
        bisection=known.of(failing.bug.id, bisection.STEP),
        ablation=known.of(failing.bug.id, "ablate"),
        localization=known.of(failing.bug.id, "localize"),
        causes=causes_of(failing.bug, library),
    )
    if subject.draws or subject.pooled:
        return replace(subject, plainer=tuple(_plainer(store, checker, subject)))
    index = subject.evidence.sample or 0
    leeway = _leeway(subject, subject.evidence, reference.samples[index]) if index < len(reference.samples) else None
    subject = replace(subject, leeway=leeway)
    return replace(subject, plainer=tuple(_plainer(store, checker, subject)))


def _leeway(subject: Subject, found: Evidence, sample: ReferenceSample) -> Leeway | None:
    target = subject.target
    return leeway_of(sample, subject.kind, found, declared_arithmetic(resolve(target), target))


def _plainer(store: Store, checker: Checker, subject: Subject) -> Iterator[Subject]:
    """Yield the same bug with plainer numbers, if such numbers are found."""
    index = subject.evidence.sample or 0
    if subject.pooled or subject.after_another_call or index >= len(subject.case.samples):
        return
    sample, program = subject.case.samples[index], subject.case.program
    if program.form == "torch" or (program.form == "source" and sample.origin == "example"):
        return  # an archive is rewritten as text later; short text that makes the failing inputs is plain already
    signature = Signature.of(subject.bug.fingerprint.stage, subject.kind, subject.evidence)
    case = replace(subject.case, samples=(sample,))
    found = PlainNumbers(checker, case, signature, subject.evidence).search()
    if found is None:
        return
    told = found.verdict
    evidence = replace(told.evidence, sample=0)
    yield replace(
        subject,
        case=case_to_run(store, store.save_case(found.case)),  # files of a worker are deleted when the worker ends
        verdict={**subject.verdict, "reason": told.reason, "kind": str(told.kind), "evidence": evidence.to_json()},
        expected=found.expected,
        right=found.right,
        leeway=None if subject.draws else _leeway(subject, evidence, found.sample),
    )


def _results(
    store: Store, reference: Reference, failing: Failing, reduced: Mapping[str, Any] | None
) -> tuple[Arrays, Arrays]:
    """Return the expected results on the failing sample, as stored or computed again, and the correctly rounded ones.
    `reduced`: the verdict on the reduced case, if the reduced case is exported."""
    samples = reference.samples
    found = failing.finding.evidence if reduced is None else Evidence.from_json(reduced.get("evidence") or {})
    index = found.sample or 0
    known = index < len(samples) and not samples[index].failure
    expected, right = (dict(samples[index].native), right_results(samples[index])) if known else ({}, {})
    digest = (failing.finding.verdict.get("artifacts") or {}).get("expected")
    if digest and reduced is None:
        with contextlib.suppress(StoreError, OSError, ValueError):
            return store.load_tensors(digest), right
    return expected, right


def draws_numbers(checker: Checker, case: Case, reference: Reference) -> bool:
    """True if the results of a case depend on its seed, as with random weights: results with another seed differ.
    `reference`: the results with the case's own seed."""
    if reference.random or case.program.form != "source":
        return reference.random
    program = replace(case.program, state="")  # weights may differ with another seed
    other = checker.reference(replace(case, program=program, options=replace(case.options, seed=case.options.seed + 1)))
    if other.random or bool(other.problem) != bool(reference.problem):
        return True
    pairs = zip(reference.samples, other.samples, strict=False)
    return any(not _are_equal(one.native, another.native) for one, another in pairs)


def _are_equal(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(one[name].tobytes() == other[name].tobytes() for name in one)


def _converted(checker: Checker, case: Case, failing: Failing) -> Program | None:
    """Return the ONNX model that the compiler was given, or None if the program was not converted or the conversion is
    to blame."""
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
    """Return the case of a torch.export archive as readable source with the failing inputs, or None for other
    programs."""
    if case.program.form != "torch":
        return None
    sample = failing.finding.evidence.sample or 0
    signature = Signature.of_finding(failing.finding.verdict, failing.finding.execution)
    question = CandidateQuestion(replace(case, samples=case.samples[sample : sample + 1]), case.targets[0], signature)
    made = written_anew(checker, question)
    return case_to_run(store, store.save_case(made)) if made else None  # a worker's files end with the worker
