"""Build the views of a report from a store. Data that a finding lacks (older stores, lost objects) is noted as a gap,
not raised.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import driftline
from driftline.causes import Cause, Library
from driftline.core.case import Case
from driftline.core.errors import StoreError
from driftline.core.identity import AFTER_ANOTHER_CALL
from driftline.core.program import SCRIPT
from driftline.core.severity import SEVERITIES, is_on_ordinary_values, severity
from driftline.core.target import Target
from driftline.core.text import first_line, tail
from driftline.core.verdict import Judgement, Kind, Status, Verdict
from driftline.programs.operators import operators_of
from driftline.report import words
from driftline.report.annotated import causes_of
from driftline.report.debate import debate_of
from driftline.report.explained import explained_so_far, reduction_steps
from driftline.report.kinship import in_order, with_likeness
from driftline.report.layers import view_of
from driftline.report.mismatch import describe_tensor, from_arrays, from_evidence
from driftline.report.pairwise import pairwise_view
from driftline.report.program import program_text, reduced_text
from driftline.report.results import replay_command
from driftline.report.scripts.later_call import later_call_recipe
from driftline.report.scripts.render import render_script, show_script
from driftline.report.tested import checked_of, environment_of, hunts_of, others_of, schedules_tested, statistics_of
from driftline.report.title_facts import facts_of
from driftline.report.titles import SmallestForm, facts_in, smallest_of, title_of
from driftline.report.view import (
    ACCEPTED,
    FIXED,
    FLAKY,
    KNOWN,
    OPEN,
    REDUCED,
    BlamedRule,
    BugCause,
    BugView,
    ComparisonView,
    Explanation,
    LayerView,
    Mismatch,
    PairwiseView,
    ReportView,
    ShortestForm,
)
from driftline.scenarios.keeping import DIFFERENCES
from driftline.store import Bug as StoredBug
from driftline.store import Finding, Store
from driftline.store.diagnoses import Diagnoses
from driftline.store.hunts import HuntLog
from driftline.store.listing import findings_count, list_bugs, versions_seen
from driftline.store.rows import DAMAGE

V = TypeVar("V")

_GROUPS = {Status.KNOWN: KNOWN, Status.FLAKY: FLAKY, Status.FIXED: FIXED}
_ORDER = {OPEN: 0, REDUCED: 1, KNOWN: 2, ACCEPTED: 3, FLAKY: 4, FIXED: 5}
ROOM = 12_000  # characters of tensors that a script in a report may hold
LOG = 6_000
DETAILED = 400  # with more bugs than this, a report has everything of the worst ones only, and a line of each other
_ONE_CALL = (
    "# A first call is right, and this script makes no other: driftline replay makes a second one, which is wrong."
)


def gather(path: Path, library: Library | None = None) -> ReportView:
    """Return everything that a report says about the store in `path`."""
    with Store.open(path) as store:
        return gather_store(store, library)


def gather_store(store: Store, library: Library | None = None, *, full: int | None = None) -> ReportView:
    """Return everything that a report says about an open store. If the store has more than `DETAILED` bugs, only the
    worst `full` are given in full.
    """
    log = HuntLog(store)
    hunts = hunts_of(log)
    sightings = log.sightings() if hunts else {}
    bugs = _bugs(store, sightings, library, DETAILED if full is None else full)
    statistics = statistics_of(log, hunts) if hunts else None
    shown = sorted((bug for bug in bugs if bug.detailed), key=_rank)
    bugs = [*with_likeness(shown), *in_order(sorted((bug for bug in bugs if not bug.detailed), key=_rank))]
    environment = environment_of(hunts, bugs)
    return ReportView(
        str(store.path),
        _now(),
        driftline.__version__,
        words.verdict_line(bugs, statistics, checked_of(store), others_of(store)),
        replace(environment, facts={**environment.facts, **schedules_tested(store)}),
        tuple(bugs),
        statistics,
        tuple(store.gaps),
    )


def each_in_full(store: Store, bugs: Sequence[BugView], library: Library | None = None) -> Iterator[BugView]:
    """Yield bugs that a report lists in brief, each with full details. Their programs are shown as found, since
    rewriting thousands as scripts would take minutes.
    """
    listed = {bug.id: bug for bug in bugs}
    for stored in list_bugs(store):
        if stored.id not in listed or not stored.findings:
            continue
        known = listed[stored.id]
        found = _sound_bug(store, stored, known.sightings, True, library, scripts=False) or known
        yield replace(found, versions=known.versions)


def in_brief(store: Store, bugs: Sequence[StoredBug], library: Library | None = None) -> list[BugView]:
    """Return views of the given bugs with only the fields that a list shows."""
    seen, counts = HuntLog(store).sightings(), findings_count(store)
    listed = [bug for bug in bugs if bug.findings]
    views = (_sound_bug(store, bug, max(seen.get(bug.id, 0), counts[bug.id]), False, library) for bug in listed)
    return [view for view in views if view]


def in_full(store: Store, name: str, library: Library | None = None) -> BugView:
    """Return one bug in full, by its id or the beginning of the id. Raise if there is no such bug or if its data is
    damaged.
    """
    bug = store.bug(name)
    seen = max(HuntLog(store).sightings().get(bug.id, 0), len(bug.findings))
    found = _sound_bug(store, bug, seen, True, library)
    if found is None:
        raise StoreError(store.gaps[-1])
    return replace(found, versions=versions_seen(store, bug.id).get(bug.id, ()))


def _bugs(store: Store, sightings: Mapping[str, int], library: Library | None, full: int) -> list[BugView]:
    """Return views of all bugs. If there are more than `DETAILED`, only the `full` worst ones have all details."""
    stored = [bug for bug in list_bugs(store) if bug.findings]
    versions, counts = versions_seen(store), findings_count(store)

    def made(bugs: Iterable[StoredBug], detailed: bool) -> list[BugView]:
        found = []
        for bug in bugs:
            seen = max(sightings.get(bug.id, 0), counts.get(bug.id, 0))
            if sound := _sound_bug(store, bug, seen, detailed, library):
                found.append(replace(sound, versions=versions.get(bug.id, ())))
        return found

    if len(stored) <= DETAILED:
        return made(stored, True)
    rough = sorted(made(stored, False), key=_rank)
    worst = {bug.id for bug in rough[:full]}
    whole = made((bug for bug in stored if bug.id in worst), True)
    return [*whole, *(bug for bug in rough if bug.id not in worst)]


def _rank(bug: BugView) -> tuple[int, bool, int, int, str, str]:
    return _ORDER[bug.group], bug.debatable, bug.severity, -bug.sightings, bug.compiler, bug.id


def _sound_bug(
    store: Store, bug: StoredBug, seen: int, detailed: bool, library: Library | None, *, scripts: bool = True
) -> BugView | None:
    """Return the view of a bug, or None if its data is damaged, which is noted as a gap of the store."""
    try:
        return _bug(store, bug, seen, detailed, library, scripts)
    except StoreError as error:
        store.note_gap(str(error))
    except DAMAGE as error:
        told = f"{type(error).__name__}: {error}"
        store.note_gap(f"The bug {bug.id} in the store {store.path} is damaged ({told}); it cannot be shown.")
    return None


def compare(before: Path, after: Path, library: Library | None = None) -> ComparisonView:
    """Compare the bugs of two stores by fingerprint: which are new, which are fixed and which stay."""
    first, second = gather(before, library), gather(after, library)
    now = {bug.id: bug for bug in second.bugs}
    was_fixed = {bug.id for bug in first.bugs if bug.group == FIXED}
    new, still, fixed = _changes({bug.id: bug for bug in first.bugs if bug.group != FIXED}, now)
    shown = {bug.id for bugs in (new, still, fixed) for bug in bugs}
    new, still, fixed = ([_among(shown, bug) for bug in bugs] for bugs in (new, still, fixed))
    notes = {bug.id: "it was fixed and is back" for bug in new if bug.id in was_fixed}
    notes |= {bug.id: "marked as fixed" if bug.id in now else "not seen again" for bug in fixed}
    verdict = words.compare_line(len(new), len(fixed), len(still))
    made, version = second.made, second.driftline
    return ComparisonView(
        str(before), str(after), made, version, verdict, tuple(new), tuple(fixed), tuple(still), notes
    )


def _changes(old: Mapping[str, BugView], now: Mapping[str, BugView]) -> tuple[list[BugView], ...]:
    """List the bugs that are new, those that stay and those that are fixed."""
    apart = (FIXED, KNOWN, REDUCED, ACCEPTED)
    new = [bug for name, bug in now.items() if name not in old and bug.group not in apart]
    still = [bug for name, bug in now.items() if name in old and bug.group != FIXED]
    fixed = [bug for name, bug in old.items() if name not in now or now[name].group == FIXED]
    return new, still, fixed


def _among(shown: set[str], bug: BugView) -> BugView:
    """Return the bug without its likeness to a bug that is not shown."""
    return bug if bug.like is None or bug.like.bug in shown else replace(bug, like=None)


def _bug(
    store: Store, bug: StoredBug, seen: int, detailed: bool, library: Library | None, scripts: bool = True
) -> BugView:
    if not detailed:
        return _line_of(store, bug, seen, library, None)
    finding = bug.findings[0]
    case = _case(store, finding.case_id)
    line = _line_of(store, bug, seen, library, case)
    if not line.script:
        line = replace(line, script=_program(case, finding.evidence.sample or 0, finding.target, scripts))
    return replace(
        line if case is None else _with_program(line, case, finding.evidence.sample or 0),
        program=words.program_words(case.runs.name) if case else "(its program is lost)",
        mismatch=None if _is_told(finding) else _mismatch(store, finding),
        smallest=_smallest(store, small, finding.target) if scripts and (small := smallest_of(finding)) else None,
        explanation=_explanation(store, bug.id),
        layers=_layers(store, bug.id),
        pairwise=_pairwise(store, bug.id),
        detailed=True,
    )


def _line_of(store: Store, bug: StoredBug, seen: int, library: Library | None, case: Case | None) -> BugView:
    """Make the view of a bug from the store's rows, for a line of a list; `_bug` adds the rest to it."""
    finding = bug.findings[0]
    verdict, execution, evidence = _Body(finding.verdict), _Body(finding.execution), finding.evidence
    causes = causes_of(bug, library)
    failure = _Body(execution.part("failure"))
    facts = facts_in(finding.verdict) or (facts_of(case, evidence) if case else None)
    small = smallest_of(finding)
    named = small.facts if small else facts
    plain = facts is None or facts.ordinary is not False
    rank = severity(bug.fingerprint.kind, is_on_ordinary_values(evidence, plain_inputs=plain))
    blame, reference = verdict.text("blame"), case.program.name if case and case.deployed else ""
    return BugView(
        id=bug.id,
        title=title_of(bug, facts),
        group=_group(bug, causes),
        status=str(bug.status),
        severity=rank,
        severity_name=SEVERITIES[rank],
        compiler=bug.fingerprint.backend,
        target=finding.target,
        versions=(),
        kind=bug.fingerprint.kind,
        stage=bug.fingerprint.stage,
        reason=words.reduced_reason(words.reason_with(blame, _verdict(finding, bug.summary), reference), evidence),
        fingerprint=bug.fingerprint.detail,
        operators=(),
        spelled=named.operators if named else (),
        dtypes=(),
        message=f"{evidence.exception}: {evidence.message}" if evidence.exception else "",
        program=bug.fingerprint.detail,
        form="",
        framework="",
        script=verdict.text("script"),
        origin="",
        inputs=(),
        mismatch=None,
        differences=tuple(str(one["sentence"]) for one in finding.verdict.get(DIFFERENCES) or ()),
        replay=replay_command(bug.id, store.path),
        sightings=seen,
        first_seen=bug.first_seen,
        last_seen=bug.last_seen,
        failed_runs=verdict.pair("failed_runs"),
        blame=blame,
        others={str(target): str(said) for target, said in verdict.part("others").items()},
        other_inputs=verdict.pair("other_inputs"),
        causes=tuple(BugCause(**cause.note()) for cause in causes),
        failure=": ".join(text for key in ("type", "message") if (text := failure.text(key))),
        traceback=tail(words.uncoloured(failure.text("traceback")), LOG),
        log=tail(words.uncoloured(execution.text("log")), LOG),
        durations={name: float(seconds) for name, seconds in execution.part("durations").items()},
        rule=_rule(finding.verdict),
        reference=reference,
        debate=debate_of(bug),
        certain=evidence.sigma is None or evidence.certain,
        detailed=False,
    )


def _with_program(line: BugView, case: Case, index: int) -> BugView:
    """Add the fields that describe the program and its inputs. `index`: the sample that fails."""
    sample = case.samples[index] if index < len(case.samples) else None
    operators = operators_of(case.runs)
    return replace(
        line,
        operators=operators,
        spelled=line.spelled or operators,
        dtypes=tuple(dict.fromkeys(spec.dtype for spec in case.runs.inputs)),
        form=case.runs.form,
        framework=case.runs.framework,
        origin=words.origin_words(sample.origin) if sample else "",
        inputs=tuple(describe_tensor(name, array) for name, array in sample.arrays.items()) if sample else (),
    )


def _is_told(finding: Finding) -> bool:
    """True if the failure is described in words: an exception, or a script's difference that has no numbers."""
    return bool(finding.execution.get("failure") or (finding.verdict.get(DIFFERENCES) and not finding.evidence.worst))


class _Body:
    """A stored JSON object whose fields may be missing or null."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body

    def text(self, key: str) -> str:
        return str(self._body.get(key) or "")

    def part(self, key: str) -> Mapping[str, Any]:
        return self._body.get(key) or {}

    def pair(self, key: str) -> tuple[int, int]:
        first, second = (self._body.get(key) or (0, 0))[:2]
        return int(first), int(second)


def _group(bug: StoredBug, causes: Sequence[Cause]) -> str:
    group = _GROUPS.get(bug.status, REDUCED if bug.fingerprint.kind == Kind.REDUCED_PRECISION else OPEN)
    return ACCEPTED if group in (OPEN, REDUCED) and any(cause.accepted for cause in causes) else group


def _smallest(store: Store, form: SmallestForm, target: str) -> ShortestForm | None:
    case = _case(store, form.case_id)
    if case is None:
        return None
    return ShortestForm(_program(case, form.evidence.sample or 0, target, True), from_evidence(form.evidence))


def _explanation(store: Store, bug_id: str) -> Explanation | None:
    found = explained_so_far(store, bug_id)
    diagnosis = Diagnoses(store).of(bug_id, "diagnose") or {}
    if not found.results and not diagnosis:
        return None
    reduction = found.results.get("reduce", {})
    steps = tuple(reduction_steps(reduction))
    return Explanation(
        sentences=tuple(diagnosis.get("summary") or map(words.sentence, found.sentences())),
        reduced=found.reduced,
        nearest=reduced_text(reduction, "nearest") if reduction.get("nearest") else "",
        python=found.python,
        ended=words.ended_words(str(reduction.get("ended") or "")),
        steps=steps,
    )


def _layers(store: Store, bug_id: str) -> LayerView | None:
    return _read(store, bug_id, "layers", view_of)


def _pairwise(store: Store, bug_id: str) -> PairwiseView | None:
    return _read(store, bug_id, "pairwise", pairwise_view)


def _read(store: Store, bug_id: str, step: str, view: Callable[[dict[str, Any]], V]) -> V | None:
    """Return the stored result of a diagnosis step as a view; None if there is none or, with a note of the gap, if it
    is damaged.
    """
    body = Diagnoses(store).of(bug_id, step)
    try:
        return view(body) if body else None
    except DAMAGE as error:
        store.note_gap(f"The {step} of {bug_id} in the store {store.path} is damaged ({error}); it is left out.")
        return None


def _rule(verdict: Mapping[str, Any]) -> BlamedRule | None:
    rule = verdict.get("rule")
    if not rule:
        return None
    proof = str(verdict.get("without") or "")
    return BlamedRule(str(rule["name"]), str(rule["where"]), str(verdict.get("mutation") or ""), proof)


def _case(store: Store, case_id: str) -> Case | None:
    try:
        return store.load_case(case_id)
    except StoreError as error:
        store.note_gap(str(error))
        return None


def _program(case: Case | None, index: int, target: str, scripts: bool) -> str:
    """Return the program as a script that runs by itself, or as it was found. `index`: the sample that fails."""
    if case is None:
        return ""
    if scripts and case.runs.form != SCRIPT:
        return _script(case, index, target)
    if case.runs.form not in ("source", SCRIPT):
        return ""
    return program_text(case.runs)


def _script(case: Case, index: int, target: str) -> str:
    options = case.options
    if case.deployed:
        return ""  # two programs, each with its weights: driftline replay runs them
    later = AFTER_ANOTHER_CALL in case.program.circumstances
    arrays = case.samples[index].arrays if index < len(case.samples) else {}
    try:
        if later and (text := _later_script(case, index, target)):
            return text
        text = render_script(case.program, arrays, target, grad=options.grad, seed=options.seed, room=ROOM)
        return f"{_ONE_CALL}\n{text}" if later else text
    except Exception as error:  # a damaged model, or no onnx to read it with: the rest of the report is as good
        return f"# This program cannot be printed: {type(error).__name__}: {first_line(str(error))}\n"


def _later_script(case: Case, index: int, target: str) -> str:
    """Return a script with the calls before the failing one, or an empty string if a script cannot make these calls. If
    the failing sample is unknown, the second call is used.
    """
    calls, goal = case.samples[: (index or 1) + 1], Target.parse(target)
    grad, seed = case.options.grad, case.options.seed
    recipe = later_call_recipe(case.program, calls, goal, grad=grad, seed=seed, room=ROOM) if calls[1:] else None
    return show_script(recipe, goal) if recipe else ""


def _verdict(finding: Finding, summary: str) -> Verdict:
    told = finding.verdict
    kind = Kind(told["kind"]) if told.get("kind") else None
    return Verdict(
        Judgement(told.get("verdict") or Judgement.FAIL), str(told.get("reason") or summary), kind, finding.evidence
    )


def _mismatch(store: Store, finding: Finding) -> Mismatch | None:
    artifacts, evidence = finding.verdict.get("artifacts") or {}, finding.evidence
    if "expected" in artifacts and "got" in artifacts:
        try:
            expected, got = store.load_tensors(artifacts["expected"]), store.load_tensors(artifacts["got"])
        except (StoreError, OSError, ValueError):
            return from_evidence(evidence)
        return from_arrays(expected, got, evidence) or from_evidence(evidence)
    return from_evidence(evidence)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
