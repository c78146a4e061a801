"""The full explanation of a bug: where it lies, its smallest program, what it depends on, and since when it exists.

Each step works on the result of the one before. Single operators are tried first, then the program is reduced, since a
part that fails by itself is quicker to reduce than the whole. Rules are disabled one by one on the smallest program. A
cure found on the small program is then tried on the original one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from driftline.backends import BACKENDS
from driftline.campaign.explain.ablation import Ablated, ablate_failing
from driftline.campaign.explain.bisection import Bisected, ReleaseWish, Trial, bisect_failing, keep_bisection
from driftline.campaign.explain.budget import NoTimeLeft, cut_at_end
from driftline.campaign.explain.failing import Failing, require_one_program
from driftline.campaign.explain.inquiry import Inquiry
from driftline.campaign.explain.localization import Localized, failing_sample, localize_failing, votes_for
from driftline.campaign.explain.reduction import Reduced, reduce_failing
from driftline.causes import Library
from driftline.checking.checker import Checker
from driftline.core.case import Case
from driftline.core.closing import FailedStep, closing_step
from driftline.core.errors import DriftlineError
from driftline.core.quoting import shell
from driftline.core.target import Target
from driftline.core.verdict import Status
from driftline.diagnose.bisect import Bisection
from driftline.diagnose.reduce.reducer import DoesNotFail
from driftline.diagnose.reduce.search import BudgetEnded, CandidateAnswer
from driftline.diagnose.reduce.signature import Signature
from driftline.diagnose.trials import Trials
from driftline.events import Listener, Working, ignore, says
from driftline.execute.environments import list_environments
from driftline.execute.pool import PoolExpired
from driftline.execute.releases import release_key
from driftline.report import words
from driftline.report.results import replay_command
from driftline.store import Bug, Store
from driftline.store.diagnoses import Diagnoses

STEP = "diagnose"
EACH = 180.0  # seconds for each bug when several are explained
LEAST = 30.0  # seconds that a release gets at least: with fewer it would only time out
# The share of the remaining budget that a step may take.
_SHARES = {"localize": 0.5, "reduce": 0.6, "ablate": 0.9}


@dataclass
class Diagnosis:
    """The results of the steps of an explanation; `notes` says why a step could not be done."""

    failing: Failing
    localized: Localized | None = None
    reduced: Reduced | None = None
    ablated: Ablated | None = None
    bisected: dict[str, Any] | None = None
    on_original: list[dict[str, str]] = field(default_factory=list)  # the cures, tried on the original program
    notes: dict[str, str] = field(default_factory=dict)
    failed_steps: list[FailedStep] = field(default_factory=list)  # steps that failed by a fault of Driftline
    seconds: float = 0.0

    @property
    def internal_errors(self) -> tuple[str, ...]:
        """Return the internal errors of all steps."""
        found = (
            self.localized.localization.internal_errors if self.localized else (),
            self.reduced.reduction.internal_errors if self.reduced else (),
            self.ablated.ablation.internal_errors if self.ablated else (),
        )
        return tuple(error for errors in found for error in errors)

    @property
    def met(self) -> tuple[Bug, ...]:
        """Other bugs that the reduction met."""
        return self.reduced.others if self.reduced else ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form that is stored, shown and printed; docs/json.md describes it."""
        return {
            "bug": self.failing.bug.id,
            "of_case": self.failing.finding.case_id,
            "target": str(self.failing.target),
            "summary": self._summary(),
            "localization": self.localized.body if self.localized else None,
            "reduction": self.reduced.body if self.reduced else None,
            "ablation": self.ablated.body if self.ablated else None,
            "on_original": self.on_original,
            "bisection": self.bisected,
            "notes": self.notes,
            "failed_steps": [step.to_json() for step in self.failed_steps],
            "seconds": round(self.seconds, 2),
        }

    def _summary(self) -> list[str]:
        told: list[str] = []
        with closing_step(self.failed_steps, "putting the explanation into words", "what was found is kept"):
            told += summary(self)
        return told


def diagnose_failing(
    checker: Checker,
    store: Store,
    failing: Failing,
    *,
    budget: float,
    bisect: bool = False,
    library: Library | None = None,
    inquiry: Inquiry | None = None,
    listener: Listener = ignore,
) -> Diagnosis:
    """Explain a failure within a budget of seconds and store the result. `inquiry`: the measurement to repeat, for a
    cost bug. Such a bug is not localised, since the reduction cuts the program to the operators that matter. Raises
    `DoesNotFail`."""
    require_one_program(failing.case, "diagnose")
    course = _DiagnosisRun(checker, store, failing, budget, library, inquiry, listener)
    with cut_at_end(checker.pool, budget, STEP):
        found = course.run(bisect)
    Diagnoses(store).save(failing.bug.id, STEP, found.to_json())
    return found


def unreported(names: Sequence[str], bugs: Mapping[str, Bug]) -> list[str]:
    """Return the names of the bugs that the compiler's project does not know yet; only these are worth the time."""
    return [name for name in names if bugs[name].status is not Status.KNOWN]


class _DiagnosisRun:
    def __init__(
        self,
        checker: Checker,
        store: Store,
        failing: Failing,
        budget: float,
        library: Library | None,
        inquiry: Inquiry | None,
        listener: Listener,
    ) -> None:
        self._library = library
        self._inquiry = inquiry
        self._checker, self._store, self._failing = checker, store, failing
        self._began = time.monotonic()
        self._deadline = self._began + budget
        self._listener = listener
        self._signature = Signature.of_finding(failing.finding.verdict, failing.finding.execution)
        self._found = Diagnosis(failing)

    def run(self, bisect: bool) -> Diagnosis:
        """Run the steps one after the other and return the explanation."""
        found = self._found
        if not self._inquiry:
            found.localized = self._step("localize", self._localize)
        found.reduced = self._step("reduce", self._reduce)
        found.ablated = self._step("ablate", self._ablate)
        with closing_step(found.failed_steps, "asking the program that was found", "only the smaller one was asked"):
            self._ask_original()
        if bisect or self._has_other_releases():
            found.bisected = self._step("bisect", lambda left: self._bisect(left, asked=bisect))
        found.seconds = time.monotonic() - self._began
        return found

    def _step(self, name: str, work: Callable[[float], Any]) -> Any:
        left = self._deadline - time.monotonic()
        if left <= 0:
            self._found.notes[name] = "no time was left for it"
            return None
        try:
            self._listener(Working(name, "..."))
            return work(left * _SHARES.get(name, 1.0))
        except DoesNotFail as reason:
            if name == "localize" or (self._inquiry and not self._found.reduced):  # later steps need this one
                raise
            self._found.notes[name] = str(reason)
        except (BudgetEnded, PoolExpired, NoTimeLeft):
            self._found.notes[name] = "the budget ended before it came to a result"
        except DriftlineError as reason:
            self._found.notes[name] = str(reason)
        except Exception as error:  # a fault of Driftline ends only this step, and is reported
            step = FailedStep.of(name, error, "the other steps went on")
            self._found.failed_steps.append(step)
            self._found.notes[name] = f"failed: {step.error}"
        return None

    def _localize(self, budget: float) -> Localized:
        return localize_failing(
            self._checker,
            self._store,
            self._failing,
            budget=budget,
            listener=self._listener,
        )

    def _reduce(self, budget: float) -> Reduced:
        reduced = partial(
            reduce_failing,
            self._checker,
            self._store,
            budget=budget,
            library=self._library,
            inquiry=self._inquiry,
            listener=self._listener,
        )
        part = self._part_that_fails()
        if part is not None:
            try:
                return reduced(replace(self._failing, case=part))
            except DoesNotFail:
                self._listener(Working("reduce", "the part does not fail again; the whole program it is"))
        return reduced(self._failing)

    def _part_that_fails(self) -> Case | None:
        """Return the case of the first suspect that fails in the way of the bug, or None."""
        if not self._found.localized:
            return None
        for suspect in self._found.localized.localization.suspects:
            if self._signature.covers(Signature.of_verdict(suspect.result.execution, suspect.result.verdict)):
                return suspect.case.only(self._failing.target)
        return None

    def _ablate(self, budget: float) -> Ablated:
        return ablate_failing(
            self._checker,
            self._store,
            self._failing,
            budget=budget,
            case=self._smallest(),
            inquiry=self._inquiry,
            listener=self._listener,
        )

    def _smallest(self) -> Case | None:
        """Return the smallest program that is known to fail on this target, or None."""
        reduced = self._found.reduced
        if reduced and reduced.reduction.smallest:
            return reduced.reduction.smallest.case.only(self._failing.target)
        return self._part_that_fails()

    def _ask_original(self) -> None:
        """Try the first cure of the small program on the original one, and keep the answer."""
        if not self._found.ablated or self._smallest() is None:
            return
        case, votes = failing_sample(self._failing), votes_for(self._failing)
        trials = self._inquiry.trials(case) if self._inquiry else Trials(self._checker, case, self._signature, votes)
        for cure in self._found.ablated.body["cures"][:1]:
            target = Target.parse(cure["target"])
            try:
                reply = trials.ask(target, fresh=True)
            except BudgetEnded:
                return
            command = f"{replay_command(self._failing.bug.id, self._store.path)} --target {shell([target])}"
            answer = {"title": cure["title"], "target": str(target), "answer": str(reply.answer)}
            self._found.on_original.append({**answer, "reason": reply.reason, "command": command})

    def _has_other_releases(self) -> bool:
        packages = BACKENDS.get(self._failing.target.backend).packages
        return not self._failing.target.version and any(e.package in packages for e in list_environments())

    def _bisect(self, budget: float, *, asked: bool) -> dict[str, Any]:
        """Search the releases that are installed, or all releases if `asked`. When the time is over, return the answers
        so far."""
        case = self._smallest() or self._failing.case
        patience = replace(case.options, timeout=min(case.options.timeout, max(budget, LEAST)))
        failing = replace(self._failing, case=replace(case, options=patience))
        trials: list[Trial] = []

        def tried(trial: Trial) -> None:
            trials.append(trial)
            if time.monotonic() > self._deadline:
                raise _TimeIsUp

        try:
            wish = ReleaseWish(installed=not asked)
            bisected = bisect_failing(
                self._checker,
                failing,
                wish,
                inquiry=self._inquiry,
                report=says(self._listener, "bisect"),
                tried=tried,
            )
        except _TimeIsUp:
            bisected = bisected_so_far(failing, trials)
            command = shell(["driftline", "bisect", self._failing.bug.id])
            self._found.notes["bisect"] = f"time was up after {len(trials)} releases; {command} asks all"
        keep_bisection(self._store, bisected)
        return bisected.to_json()


class _TimeIsUp(Exception):
    """The budget ended between two releases."""


def bisected_so_far(failing: Failing, trials: Sequence[Trial]) -> Bisected:
    """Return the result that follows from the releases tried so far."""
    answers = {trial.release: trial.answer for trial in trials}
    releases = tuple(sorted(answers, key=release_key))
    package = BACKENDS.get(failing.target.backend).packages[0]
    return Bisected(package, failing, Bisection(releases, answers), tuple(trials))


def summary(found: Diagnosis) -> Iterator[str]:
    """Yield a few sentences about a diagnosis, the most telling facts first."""
    if found.localized:
        yield from _where(found.localized.body)
    if found.reduced:
        reduction = found.reduced.reduction
        taken_apart = found.localized.localization.operators if found.localized else 0
        before = max(taken_apart, reduction.before.operators)
        fewer = before > reduction.after.operators
        since = f" from {before} operators" if fewer else ""
        yield f"Reduced{since} to {reduction.after} ({words.ended_words(reduction.ended)})."
    if found.ablated:
        yield from _why(found.ablated.body)
    for cure in found.on_original:
        if cure["answer"] != CandidateAnswer.PASS:
            yield f"The program that was found still fails with that ({cure['title']}): {cure['reason']}."
    if found.bisected:
        yield f"{found.bisected['package']}: {found.bisected['summary']}"
    for step, reason in found.notes.items():
        yield f"{step}: {reason}"


def _where(body: dict[str, Any]) -> Iterator[str]:
    right = [rung["target"] for rung in body["ladder"] if rung["answer"] == CandidateAnswer.PASS]
    yield f"{body['first_wrong']} is wrong" + (
        f"; {', '.join(right)} {'is' if len(right) == 1 else 'are'} right." if right else "."
    )
    for suspect in body["suspects"]:
        if len(suspect["operators"]) == body["operators"]:
            alone = body["operators"] == 1
            whole = "The program is a single operator" if alone else "No part fails by itself, only the whole program"
            yield f"{whole}: {suspect['title']}."
            continue
        places = words.places(suspect["operators"], body["operators"])
        alike = f" and {suspect['alike']} more of its kind" if suspect["alike"] else ""
        rest = "; without it the program passes" if suspect["rest"] == CandidateAnswer.PASS else ""
        rest += "; each operator was run alone first" if body.get("lone") and suspect is body["suspects"][0] else ""
        yield f"{suspect['title']} ({places}){alike} fails by itself{rest}."
    for fact in (body["observer"], body["note"]):
        if fact:
            yield words.sentence(fact)


def _why(body: dict[str, Any]) -> Iterator[str]:
    for cure in body["cures"]:
        if cure["confirmed"]:
            yield str(cure["sentence"])
    if body["note"]:
        yield words.sentence(body["note"])
