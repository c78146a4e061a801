"""The whole course of a reduction: read the program, take nodes away, make what is left plainer, check the result.

The result is *1-minimal* when no single step makes it smaller any more and every program with one operator less was
asked about by itself. When the budget ends before that, the smallest so far is the result, and it says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

from driftline.checking.checker import Checker, TargetResult
from driftline.core.case import Case
from driftline.core.errors import BackendUnavailable, DriftlineError
from driftline.core.verdict import Judgement, Kind
from driftline.diagnose.reduce.asking import Asker, Writer
from driftline.diagnose.reduce.order import Size
from driftline.diagnose.reduce.question import ONCE, Question, Votes
from driftline.diagnose.reduce.reading import TRACERS as TRACERS
from driftline.diagnose.reduce.reading import Reader
from driftline.diagnose.reduce.search import Answer, BudgetEnded, Reply, Search, Step
from driftline.diagnose.reduce.shrinking import GraphShrinker, TextShrinker
from driftline.diagnose.reduce.signature import Signature
from driftline.diagnose.reduce.text import Text
from driftline.diagnose.reduce.values import Values
from driftline.execute.pool import WorkerStartError
from driftline.oracle.judge import Reference

TRIES = 10  # of a case that is said to fail and passes, before it is given up

MINIMAL = "1-minimal"
BUDGET_ENDED = "budget ended"


class NotReducible(DriftlineError):
    """There is nothing to make smaller: the case does not fail here, or its program cannot be taken apart."""


class DoesNotFail(NotReducible):
    """The case passes, or fails in another way than it is said to: perhaps it is fixed. No error of the user's."""

    exit_code = 0


@dataclass(frozen=True)
class Checked:
    """A program that went through the ordinary check."""

    case: Case
    result: TargetResult
    reference: Reference


@dataclass(frozen=True)
class Reduction:
    """What became of a failing case."""

    smallest: Checked | None  # None: a flaky failure that the last check did not show again
    case: Case
    nearest: Case | None  # the program most like it that passes
    nearest_reason: str
    others: tuple[Checked, ...]  # candidates that fail in another way
    form: str  # what was reduced: a graph, and who traced it, or the text
    ended: str  # MINIMAL or BUDGET_ENDED, or what is in doubt
    steps: tuple[Step, ...]
    queries: int
    remembered: int
    seconds: float
    votes: Votes
    internal_errors: tuple[str, ...] = ()

    @property
    def before(self) -> Size:
        return self.steps[0].size

    @property
    def after(self) -> Size:
        return self.steps[-1].size


Memos = Callable[[Question], MutableMapping[str, Reply]]


def reduce_case(
    checker: Checker,
    case: Case,
    signature: Signature,
    *,
    budget: float,
    votes: Votes = ONCE,
    memos: Memos = lambda question: {},
    listener: Callable[[Step], None] = lambda step: None,
) -> Reduction:
    """Make the case smaller; it must have one target. Raises `NotReducible` when it does not fail."""
    course = _Course(checker, Question(case, case.targets[0], signature, votes), budget, memos, listener)
    try:
        return course.run()
    except WorkerStartError as error:
        raise BackendUnavailable(f"{case.targets[0]} cannot start: {error}. Run driftline doctor.") from error


class _Course:
    def __init__(
        self,
        checker: Checker,
        question: Question,
        budget: float,
        memos: Memos,
        listener: Callable[[Step], None],
    ) -> None:
        self._checker = checker
        self._question = question
        self._memos = memos
        self._listener = listener
        self._began = time.monotonic()
        self._deadline = self._began + budget
        self._folder = checker.pool.workspace.job_folder() / "values"
        self._values = Values(self._folder)
        self._extra_queries = 0

    def run(self) -> Reduction:
        self._reproduce()
        self._reader = Reader(self._checker, self._question, self._folder)
        try:
            for form, start, asker in self._starts():
                search = self._search(start, asker)
                shrinker = self._shrinker(start)
                if shrinker.begins(search):
                    return self._concluded(search, asker, form, shrinker.shrink(search))
                self._extra_queries += search.queries
        except BudgetEnded as ended:
            raise NotReducible("The budget ended before anything could be tried; give more with --budget.") from ended
        raise NotReducible(
            f"{self._question.case.program.name} fails, but not when it is written anew as a graph or as plain text:"
            " what matters lies outside of both, such as shared memory or a file. Reduce it by hand."
        )

    # -- before ------------------------------------------------------------------------------------------------------

    def _reproduce(self) -> None:
        """The case must fail here and now; one sample is better than several."""
        case = self._question.case
        reply = self._look(case)
        failed, runs = int(reply.answer is Answer.SAME), 1
        while not failed and runs < TRIES and self._question.votes.runs == 1 and reply.answer is Answer.PASS:
            failed, runs = failed + (self._look(case).answer is Answer.SAME), runs + 1
        if not failed:
            raise DoesNotFail(
                f"{case.program.name} does not fail in the same way on {self._question.target} now ({reply.reason})."
                " Only what fails can be reduced; see driftline replay."
            )
        if runs > 1:
            self._question = replace(self._question, votes=Votes.for_rate(1, runs))
        for sample in case.samples if len(case.samples) > 1 else ():
            alone = replace(case, samples=(sample,))
            if self._look(alone).answer is Answer.SAME:
                self._question = replace(self._question, case=alone)
                return

    def _look(self, case: Case) -> Reply:
        self._extra_queries += 1
        return Asker(self._checker, self._question, self._writer({}), dict).look_at(case)

    def _writer(self, more: Mapping[str, Any]) -> Writer:
        return Writer(self._checker, self._question, self._folder, more)

    def _starts(self) -> Iterator[tuple[str, Any, Asker]]:
        """The forms in which the program can be reduced, the best first."""
        framework = self._question.case.program.framework
        if framework in ("onnx", "torch"):
            for tracer in TRACERS if framework == "torch" else ("",):
                graph = self._reader.graph(tracer)
                if graph:
                    asker = self._asker({}, graph, lambda g: {"graph": g.to_json()})
                    yield (f"torch graph ({tracer})" if tracer else "ONNX graph"), graph, asker
        if self._question.case.program.form == "source":
            text, more = self._reader.text()
            yield "Python text", text, self._asker(more, text, Text.to_request)

    def _asker(self, more: Mapping[str, Any], start: Any, request_of: Callable[[Any], Mapping[str, Any]]) -> Asker:
        """Asks about candidates that make as much sense as the program they come from."""
        writer = self._writer(more)
        if self._question.signature.kind != Kind.MISSING_ERROR:  # of those, the reference has no values
            writer.keep_meaning_of(request_of(start))
        return Asker(self._checker, self._question, writer, request_of)

    # -- the search --------------------------------------------------------------------------------------------------

    def _shrinker(self, start: Any) -> TextShrinker | GraphShrinker:
        if isinstance(start, Text):
            return TextShrinker(self._values)
        numbers_matter = self._question.signature.numbers_matter
        most = self._question.inputs
        return GraphShrinker(self._values, self._reader.evaluate, numbers_matter=numbers_matter, most=most)

    def _search(self, start: Any, asker: Asker) -> Search[Any]:
        return Search(
            asker.ask,
            start,
            memo=self._memos(self._question),
            deadline=self._deadline,
            batch=asker.batch,
            inputs=self._question.inputs,
            listener=self._listener,
        )

    # -- after -------------------------------------------------------------------------------------------------------

    def _concluded(self, search: Search[Any], asker: Asker, form: str, minimal: bool) -> Reduction:
        ended = MINIMAL if minimal else BUDGET_ENDED
        smallest, case = None, None
        for number, candidate in enumerate(reversed(search.accepted)):
            case = asker.case_of(candidate)
            smallest = self._checked(case) if case else None
            if smallest or self._question.votes.runs > 1:
                if number:
                    search.accept(candidate, "taken back")
                break
            ended = "the last steps did not survive the full check and were taken back"
            if number >= TRIES:
                raise NotReducible("The reduced program fails when it is scouted but not when it is checked in full.")
        assert case is not None
        if smallest:
            smallest, case = self._plainer_target(smallest), smallest.case
        nearest = search.nearest_passing()
        passing = asker.case_of(nearest) if nearest else None
        return Reduction(
            smallest=smallest,
            case=smallest.case if smallest else case,
            nearest=passing,
            nearest_reason=search.reason(nearest) if nearest else "",
            others=tuple(self._other_failures(search, asker)),
            form=form,
            ended=ended,
            steps=tuple(search.steps),
            queries=search.queries + self._extra_queries,
            remembered=search.remembered,
            seconds=time.monotonic() - self._began,
            votes=self._question.votes,
            internal_errors=tuple(asker.internal_errors),
        )

    def _checked(self, case: Case) -> Checked | None:
        """The ordinary check; only what fails in the same way counts."""
        self._extra_queries += 1
        outcome = self._checker.check(case)
        result = outcome.results[0] if outcome.results else None
        if result is None or result.verdict.judgement is not Judgement.FAIL or not self._is_same(result):
            return None
        return Checked(case, result, outcome.reference)

    def _is_same(self, result: TargetResult) -> bool:
        return self._question.signature.covers(Signature.of_verdict(result.execution, result.verdict))

    def _plainer_target(self, found: Checked) -> Checked:
        """Without the options of the target that do not matter."""
        target = self._question.target
        for option in target.options:
            if option[0] == "device" or time.monotonic() > self._deadline:
                continue
            fewer = replace(target, options=tuple(kept for kept in target.options if kept != option))
            checked = self._checked(found.case.only(fewer))
            if checked:
                found, target = checked, fewer
        return found

    def _other_failures(self, search: Search[Any], asker: Asker) -> Iterator[Checked]:
        """What failed in another way, checked in full. torch programs mean what torch does. The reference of others is
        somebody's implementation, which also runs what is no valid program: without a witness nobody is accused of
        other values than it gives, or of refusing an operator that was changed."""
        trusted = self._question.case.program.framework == "torch"
        for candidate in search.others.values():
            case = asker.case_of(candidate)
            if case is None or time.monotonic() > self._deadline + self._question.timeout:
                continue
            outcome = self._checker.check(case)
            for result in outcome.results:
                failed = result.verdict.judgement is Judgement.FAIL and not result.flaky and not self._is_same(result)
                kind = result.verdict.kind
                refused = kind is Kind.ERROR and candidate.key in search.cut
                if failed and (trusted or refused or kind is Kind.CRASH):
                    yield Checked(case, result, outcome.reference)
