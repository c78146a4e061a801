"""Turns a suspect into a bug: the smallest part that still fails is checked by itself and recorded.

Everything that is reported went through the ordinary `check`, in a fresh process, as a program of its own. The part
names the cause as far as it is known: three programs that fail because of one operator are one bug.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from driftline.campaign.check.annotation import examined
from driftline.campaign.check.session import at_fault, fingerprint, record
from driftline.campaign.orders import SuspectOrder
from driftline.campaign.triage.inner_parts import InnerParts
from driftline.campaign.triage.known_forms import KnownForms
from driftline.campaign.triage.later_calls import PlainLaterCall
from driftline.campaign.triage.part_screening import PartScreening
from driftline.campaign.triage.plain_functions import PlainestFunctions
from driftline.campaign.triage.plainest import PlainestForm
from driftline.campaign.triage.smallest_parts import SmallestParts
from driftline.causes import Library, builtin
from driftline.checking.batch import Screened, Screening, case_of, native_of
from driftline.checking.batch_requests import PreparedProgram
from driftline.checking.checker import Checker, TargetResult
from driftline.checking.precision import reviewed
from driftline.core.case import Case
from driftline.core.errors import DriftlineError, InternalError
from driftline.core.evidence import Evidence, InputClass
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.identity import AFTER_ANOTHER_CALL, identify, operators_named_in
from driftline.core.program import Program
from driftline.core.spelling import spelled_alike
from driftline.core.target import Target
from driftline.core.text import first_line
from driftline.core.verdict import VALUE_KINDS, Judgement, Kind, Status, Verdict
from driftline.execute.pool import Pool, PoolInterrupted, WorkerStartError
from driftline.generate.blueprint import LANGUAGE
from driftline.generate.naming import circumstances_of, named, operators_named, pattern, usual_names
from driftline.generate.table import OPERATORS
from driftline.inputs.without import without
from driftline.oracle.judge import Reference
from driftline.store import Bug, Store
from driftline.store.store import Finding

OTHER_INPUTS = 4
CHECKED_FINDINGS = 2  # of one bug; later parts that look the same are not checked again
KEPT_FINDINGS = 5  # of one bug and target, stored with programs and tensors; further sightings are only counted
PATIENCE = 120.0  # seconds for one suspect
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError)  # exceptions that reading a damaged finding may raise


@dataclass(frozen=True)
class Opinion:
    """The verdict on another compiler for the same program."""

    judgement: str
    kind: str = ""
    reason: str = ""

    @property
    def words(self) -> str:
        return f"{self.judgement}: {self.kind or first_line(self.reason, 120)}".strip(": ")


@dataclass(frozen=True)
class ExaminedSuspect:
    """The outcome of an examination. `state`: `bug`, `gone` (does not fail alone), `flaky`, `accepted` (at less
    precision, which the user accepts), `disputed` (the references disagree) or `unclear`; `reason` says why it is no
    bug."""

    state: str
    bugs: tuple[tuple[Bug, bool], ...] = ()  # with True if the bug is new
    reason: str = ""


class Triage:
    """Examines suspects, and records their bugs in `store`."""

    def __init__(
        self,
        checker: Checker,
        store: Store,
        library: Library | None = None,
        elsewhere: Mapping[str, Bug] = MappingProxyType({}),
    ) -> None:
        """`elsewhere`: the bugs of the hunt's own store, if `store` is another one."""
        self.library = builtin() if library is None else library
        self.forms = KnownForms()
        self._checker = checker
        self._store = store
        self._elsewhere = elsewhere

    def examine(self, order: SuspectOrder) -> ExaminedSuspect:
        """Examine one suspect with a screening of its own."""
        options = order.options
        with Screening(
            self._checker.pool, order.form, seed=options.seed, plugins=options.plugins, timeout=options.timeout
        ) as screening:
            return _Examination(self, screening, order).examine()

    def known_error(self, target: Target, whole: Screened) -> Bug | None:
        """Return the known bug whose error message a failing program raises, if the program holds all operators of that
        bug; such a program is not examined again. Returns None if there is no such bug, or it counts as fixed."""
        if whole.kind != Kind.ERROR or not whole.made:
            return None
        operators = spelled_alike(name for name, _ in whole.coverage)
        for told in sorted([*self._store.bugs(), *self._elsewhere.values()], key=lambda bug: bug.id):
            fingerprint = told.fingerprint
            if fingerprint.kind != Kind.ERROR or not operators_named_in(fingerprint.detail) <= operators:
                continue
            try:
                bug = self._unsettled(told.id)
                if bug and any(_is_error_of(finding, target, whole.evidence) for finding in bug.findings):
                    return bug
            except (DriftlineError, *_DAMAGED) as error:  # a damaged bug says nothing about this program
                self._store.note_gap(f"The bug {told.id} in the store {self._store.path} is damaged ({error}).")
        return None

    @property
    def pool(self) -> Pool:
        return self._checker.pool

    def known_details(self, target: Target) -> list[str]:
        """Return the details of the known bugs of a target."""
        return [bug.fingerprint.detail for bug in self._store.bugs() if bug.fingerprint.backend == target.backend]

    def known_value(
        self, target: Target, part: Screened, settings: Sequence[str] = (), least: int = CHECKED_FINDINGS
    ) -> Bug | None:
        """Return the known bug with the name of a failing part if the bug was checked at least `least` times, so
        that the part is only counted; else None. `settings`: those that the failure needs
        (`PartScreening.needed_settings`)."""
        if part.kind not in VALUE_KINDS or not part.made:
            return None
        bug = self._unsettled(self.name(target, part, settings))
        return bug if bug and len(bug.findings) >= least else None

    def known_form(self, target: Target, part: Screened, settings: Sequence[str] = ()) -> Bug | None:
        """Return the bug that earlier parts with the name of this part turned out to be, or None."""
        if part.kind not in VALUE_KINDS or not part.made:
            return None
        known = self.forms.bug(self.name(target, part, settings))
        return self._unsettled(known) if known else None

    @staticmethod
    def name(target: Target, part: Screened, settings: Sequence[str] = ()) -> str:
        """Return the id of the bug that a part would be, named by its own operators."""
        assert part.made
        program = described(part.made.program, part, settings)
        execution = Execution(target.backend, Outcome.OK, Stage.RUN)
        verdict = Verdict(Judgement.FAIL, part.reason, Kind(part.kind), part.evidence)
        return identify(program, program.operators, target, execution, verdict).bug_id

    def known(self, bug_id: str) -> Bug | None:
        """Return the bug with this id, if it was seen before, else None."""
        return self._store.bug(bug_id) if self._store.has_bug(bug_id) else self._elsewhere.get(bug_id)

    def _unsettled(self, bug_id: str) -> Bug | None:
        bug = self.known(bug_id)
        return bug if bug and bug.status not in (Status.FIXED, Status.FLAKY) else None


class _Examination:
    """The examination of one suspect, from the whole program to the recorded bugs."""

    def __init__(self, triage: Triage, screening: Screening, order: SuspectOrder) -> None:
        self._triage = triage
        self._checker = triage._checker
        self._store = triage._store
        self._order = order
        self._options = order.options
        self._screening = screening
        self._parts = PartScreening(screening, order.target, order.options)
        self._target = order.target
        self._form = order.form
        self._deadline = time.monotonic() + PATIENCE
        self._found: dict[str, tuple[Bug, bool]] = {}  # with True if the bug is new
        self._of_part: set[str] = set()  # the bugs among these that the current part turned out to be
        self._doubts: list[str] = []
        self._accepted = ""
        self._flaky = False

    def examine(self) -> ExaminedSuspect:
        """Examine the suspect: find its smallest failing parts, check them, and record their bugs."""
        whole = self._screening.screen([self._order.request], self._target)[0]
        if whole.judgement != "fail" or not whole.made:
            return ExaminedSuspect("gone", reason=f"alone it is {whole.judgement}: {whole.reason}")
        if known := self._triage.known_error(self._target, whole):
            return ExaminedSuspect("bug", ((known, False),))
        try:
            plainest = PlainestForm(self._parts, LANGUAGE[self._form], self._deadline)
            functions = PlainestFunctions(self._parts, LANGUAGE[self._form], self._deadline)
            later = PlainLaterCall(self._parts, LANGUAGE[self._form], self._deadline)
            for part in SmallestParts(self._parts, self._deadline).of(whole):
                plainer = plainest.of(part)
                plain = later.of(functions.of(plainer))
                self._of_part.clear()
                if not self._is_bug_inside(plain) and plain is not part:
                    self._is_bug_inside(part)  # the plainer form was not confirmed
                self._note_form(plainer)
        except PoolInterrupted:
            if not self._found:  # bugs recorded before the time was over count
                raise
        if self._found:
            state = "flaky" if self._flaky and len(self._found) == 1 else "bug"
            return ExaminedSuspect(state, tuple(self._found.values()))
        if self._doubts:
            return ExaminedSuspect("disputed", reason=self._doubts[0])
        if self._accepted:
            return ExaminedSuspect("accepted", reason=self._accepted)
        return ExaminedSuspect("unclear", reason="it fails among others, and not when it is checked by itself")

    def _is_bug_inside(self, part: Screened) -> bool:
        """Look for bugs inside a part, or else check the part as it is; True if a bug was found."""
        if self._is_known_value(part, self._parts.needed_settings(part)):
            return True
        inside = False
        for node in InnerParts(self._checker.pool, self._parts, self._deadline).of(part):
            if known := self._triage.known_error(self._target, node):
                self._add(known)
                inside = True
            else:
                inside |= self._is_bug(node)
        return inside or self._is_bug(part)

    def _is_bug(self, part: Screened) -> bool:
        """Check a part by itself, and note the bug, or why there is none; True if there is a bug."""
        settings = self._parts.needed_settings(part)
        if self._is_known_value(part, settings):
            return True
        result, reference, case = self._checked(part, settings)
        if not _fails(result) and _may_be_right_at_first(part):
            result, reference, case = self._checked(part, settings, after_others=True)
        if result is None or not _fails(result):
            if result and result.verdict.evidence.accepted:
                self._accepted = result.verdict.reason
            return False
        reported = self._reported(part, case, result, reference)
        if isinstance(reported, str):
            self._doubts.append(reported)
            return False
        bug, new = reported
        self._add(bug, new=new)
        self._flaky |= result.flaky
        return True

    def _is_known_value(self, part: Screened, settings: Sequence[str]) -> bool:
        assert part.made
        if part.made.graph and _may_be_right_at_first(part):  # it passes in a first call: another bug
            return False
        known = self._triage.known_value(self._target, part, settings)
        if known:
            self._add(known)
        return known is not None

    def _add(self, bug: Bug, *, new: bool = False) -> None:
        """Note a bug. If several parts turn out to be the same bug, it is new if the first of them was."""
        self._found[bug.id] = (bug, new or self._found.get(bug.id, (bug, False))[1])
        self._of_part.add(bug.id)

    def _note_form(self, part: Screened) -> None:
        """Remember which bugs a wrong part turned out to be, under the name that it would have had itself. Only for
        generated graphs: other programs are not cut while they wait."""
        if part.kind not in VALUE_KINDS or _may_be_right_at_first(part) or self._flaky or not self._of_part:
            return
        if part.made and part.made.graph:
            name = self._triage.name(self._target, part, self._parts.needed_settings(part))
            self._triage.forms.note(name, self._target.backend, spelled_alike(operators_in(part)), self._of_part)

    # -- checking and recording --------------------------------------------------------------------------------------

    def _checked(
        self, part: Screened, settings: Sequence[str], *, after_others: bool = False
    ) -> tuple[TargetResult | None, Reference, Case]:
        """Check a part by itself. `after_others`: also on the inputs before the failing one, for parts that pass in a
        first call."""
        assert part.made
        varying = _is_varying(part)
        before = range(part.sample) if after_others else ()
        case = case_of(part.made, self._target, self._options, [] if varying else [*before, part.sample])
        case = replace(case, program=described(case.program, part, settings, after_others=after_others))
        outcome = self._checker.check(case, review=partial(reviewed, self._checker))
        result = outcome.results[0] if outcome.results else None
        if result and result.internal_error:
            raise InternalError(result.internal_error)
        if result:
            case, result = at_fault(case, result)
        return result, outcome.reference, case

    def _reported(
        self, part: Screened, case: Case, result: TargetResult, reference: Reference
    ) -> tuple[Bug, bool] | str:
        """Store a failure and return its bug with True if it is new, or return why no compiler can be blamed. A new bug
        is examined more closely."""
        if bug := self._triage.known(fingerprint(case, result).bug_id):
            if sum(_is_on(finding, result.target) for finding in bug.findings) >= KEPT_FINDINGS:
                return bug, False
            kept = record(self._store, case, result, reference, again=True)
            assert kept
            return kept, False
        others = dict(self._asked(part))
        doubt = self._doubt(part, case, result, reference, others)
        if doubt:
            return doubt
        more: dict[str, Any] = {
            "others": {target: answer.words for target, answer in others.items()},
            "other_inputs": self._elsewhere(part),
        }
        evidence = replace(result.verdict.evidence, needs=self._needs(part))
        result = replace(result, verdict=replace(result.verdict, evidence=evidence))
        if time.monotonic() < self._deadline:
            more["sighting"] = examined(self._checker, case, result, self._triage.library).facts()
        kept = record(self._store, case, result, reference, more)
        assert kept
        return kept, True

    def _doubt(
        self, part: Screened, case: Case, result: TargetResult, reference: Reference, others: Mapping[str, Opinion]
    ) -> str:
        """Return why the reference itself is in doubt, or an empty string.

        The framework defines the meaning of a program in its language, one operation after another. A generated graph
        is also run in torch, since the operator table may be wrong. The reference of an ONNX program is an
        implementation too: its two references must agree, or more of the other compilers must agree with it than not.
        Otherwise no compiler is blamed.
        """
        if self._form == "torch" or result.verdict.kind not in VALUE_KINDS:
            return ""
        if part.made and part.made.graph:
            contradiction = self._contradiction(part)
            return f"torch and the {self._form} reference disagree: {contradiction}" if contradiction else ""
        if self._form != "onnx":
            return ""
        kind = str(result.verdict.kind)
        supporters = sum(answer.judgement == "pass" for answer in others.values())
        opponents = sum(answer.judgement == "fail" and answer.kind == kind for answer in others.values())
        if supporters > opponents or (
            supporters == opponents and self._checker.references_agree(case, result, reference)
        ):
            return ""
        return f"{supporters} other compilers agree with the reference and {opponents} do not"

    def _contradiction(self, part: Screened) -> str:
        """Return how torch's results on the same graph and inputs differ from the reference, or an empty string."""
        graph = self._parts.graph_as_it_failed(part)
        assert graph
        types = graph.types()
        if not all(OPERATORS[node.op].takes("torch", types[node.inputs[0]]) for node in graph.nodes):
            return ""
        request = self._parts.on_inputs(replace(graph, grad=False, transform=""), self._parts.inputs(part))
        try:
            with Screening(
                self._checker.pool, "torch", plugins=self._options.plugins, timeout=self._options.timeout
            ) as second:
                answer = second.prepare([request])[0]
                outputs = native_of(answer) if isinstance(answer, PreparedProgram) else []
        except WorkerStartError:  # torch is not installed: no second opinion
            return ""
        mine = self._screening.prepare([request])[0]
        if not outputs or not isinstance(mine, PreparedProgram):
            return ""
        return self._screening.contradicts(mine, outputs)

    def _asked(self, part: Screened) -> Iterator[tuple[str, Opinion]]:
        """Yield the opinions of the other compilers on the same program."""
        witness = self._form == "onnx" and not (part.made and part.made.graph)
        for peer in self._order.witnesses if witness else self._order.peers:
            if str(peer) == str(self._target) or (time.monotonic() > self._deadline and not witness):
                continue
            try:
                asked = self._screening.screen([self._parts.again(part)], peer)[0]
                yield str(peer), Opinion(asked.judgement, asked.kind, asked.reason)
            except WorkerStartError as error:
                yield str(peer), Opinion("", reason=f"cannot start: {error}")

    def _elsewhere(self, part: Screened) -> list[int]:
        """Return on how many other inputs the part fails, and how many were judged."""
        request = replace(part.request, inputs="", values="")
        strategies = ["random", "specials"] * (OTHER_INPUTS // 2)
        requests = [replace(request, strategies=(name,), seed=f"elsewhere/{n}") for n, name in enumerate(strategies)]
        results = self._parts.screen(requests)
        judged = [result for result in results if result.judgement in ("pass", "fail")]
        return [sum(result.judgement == "fail" for result in judged), len(judged)]

    def _needs(self, part: Screened) -> tuple[InputClass, ...]:
        """Return the classes of input numbers without which the part passes; each class present takes an experiment."""
        if part.kind not in VALUE_KINDS:
            return ()
        given = self._parts.inputs(part)
        options = [(sort, changed) for sort in InputClass if (changed := without(given, sort)) is not None]
        if not options or not (part.made and (part.made.graph or part.request.model)):
            return ()
        if part.sample and self._parts.screen([self._parts.again(part)])[0].judgement != "fail":
            return ()  # the failure needs the calls before: a single call proves nothing
        requests = [self._parts.again(part, changed) for _, changed in options]
        answers = self._parts.screen(requests)
        return tuple(sort for (sort, _), answer in zip(options, answers, strict=True) if answer.judgement == "pass")


def _fails(result: TargetResult | None) -> bool:
    return result is not None and result.verdict.judgement in (Judgement.FAIL, Judgement.REDUCED)


def _is_varying(part: Screened) -> bool:
    """True if the part is called at several sizes; such parts are always checked on all their inputs."""
    return bool(part.made and part.made.graph and part.made.graph.varying)


def _may_be_right_at_first(part: Screened) -> bool:
    """True if the part failed in a later call, and is not always checked on all its inputs."""
    return bool(part.sample) and not _is_varying(part)


def operators_in(part: Screened) -> tuple[str, ...]:
    """Return the operators of a part by their usual names."""
    assert part.made
    return operators_named(part.made.graph) if part.made.graph else usual_names(part.coverage)


def described(program: Program, part: Screened, settings: Sequence[str] = (), *, after_others: bool = False) -> Program:
    """Return the program of a part with its operators and a readable pattern. `settings`: those of the target that its
    failure needs."""
    assert part.made
    graph = part.made.graph
    words = pattern(graph) if graph else named(part.coverage)
    said = [*([AFTER_ANOTHER_CALL] if after_others else []), *settings]  # a pattern shows gradients itself
    words = " ".join((words, *said))
    circumstances = [*(circumstances_of(graph) if graph else ()), *said]
    return replace(program, operators=operators_in(part), pattern=words, circumstances=tuple(circumstances))


def _is_on(finding: Finding, target: Target) -> bool:
    """True if a finding was seen with the same compiler and options, in any release."""
    seen = Target.parse(finding.target)
    return (seen.backend, seen.options) == (target.backend, target.options)


def _is_error_of(finding: Finding, target: Target, found: Evidence) -> bool:
    """True if a finding is this very error on the target. With other settings it may be another bug."""
    seen = finding.evidence
    same = (seen.stage, seen.exception, seen.message) == (found.stage, found.exception, found.message)
    return same and _is_on(finding, target)
