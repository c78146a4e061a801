"""Run a reduction: read the program, remove nodes, simplify the rest, and check the result.

The result is *1-minimal* if no single step makes it smaller and every program with one operator less was tested by
itself. If the budget ends before that, the result is the smallest program so far, marked accordingly.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

from driftline.checking.checker import Checker
from driftline.core.case import Case
from driftline.core.errors import NOTHING_COMPARED, BackendUnavailable, DriftlineError
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Kind
from driftline.diagnose.reduce.asking import TRIES, Asker, AskerFactory, CandidateWriter, Checked
from driftline.diagnose.reduce.order import ProgramSize
from driftline.diagnose.reduce.question import ONCE, CandidateQuestion, Votes
from driftline.diagnose.reduce.reading import TRACERS as TRACERS
from driftline.diagnose.reduce.reading import Reader
from driftline.diagnose.reduce.requests import NO_FRAME, CandidateRequest, GraphCandidate, TextFrame
from driftline.diagnose.reduce.search import BudgetEnded, CandidateAnswer, ReductionStep, Reply, Search
from driftline.diagnose.reduce.shrinking import GraphShrinker, TextShrinker
from driftline.diagnose.reduce.signature import Signature
from driftline.diagnose.reduce.text import ProgramText
from driftline.diagnose.reduce.values import Values
from driftline.diagnose.trials import TrialWords
from driftline.execute.pool import PoolExpired, WorkerStartError

MINIMAL = "1-minimal"
BUDGET_ENDED = "budget ended"


class NotReducible(DriftlineError):
    """There is nothing to reduce: the case does not fail here, or its program cannot be taken apart."""


class DoesNotFail(NotReducible):
    """The case passes, or fails in another way than before; it may be fixed. This is not a user error, so the exit code
    is 0.
    """

    exit_code = 0


class CannotTell(DoesNotFail):
    """The measurement cannot tell whether the case is still slow, for instance because the machine is too noisy."""

    exit_code = NOTHING_COMPARED


def not_now(case: Case, target: Target, reply: Reply, words: TrialWords, done: str) -> DoesNotFail:
    """Return the error for a case that does not fail now. `done`: what was to be done with it, such as "reduced"."""
    name = case.program.name
    if words.measured and reply.answer is CandidateAnswer.NEITHER:
        return CannotTell(
            f"The measurement does not say whether {name} does {words.still} on {target} now ({reply.reason}). Only"
            f" what does can be {done}; try again when less runs on this machine."
        )
    return DoesNotFail(
        f"{name} does not {words.still} on {target} now ({reply.reason}). Only what does can be {done}; see driftline"
        " replay."
    )


@dataclass(frozen=True)
class Reduction:
    """The result of a reduction."""

    smallest: Checked | None  # None: a flaky failure that the last check did not show again
    case: Case
    nearest: Case | None  # the program most like it that passes
    nearest_reason: str
    others: tuple[Checked, ...]  # candidates that fail in another way
    form: str  # the reduced form: a graph, with its tracer, or text
    ended: str  # MINIMAL or BUDGET_ENDED, or a doubt about the result
    steps: tuple[ReductionStep, ...]
    queries: int
    remembered: int
    seconds: float
    votes: Votes
    internal_errors: tuple[str, ...] = ()

    @property
    def before(self) -> ProgramSize:
        return self.steps[0].size

    @property
    def after(self) -> ProgramSize:
        return self.steps[-1].size


Memos = Callable[[CandidateQuestion], MutableMapping[str, Reply]]


def reduce_case(
    checker: Checker,
    case: Case,
    signature: Signature,
    *,
    budget: float,
    votes: Votes = ONCE,
    memos: Memos = lambda question: {},
    asks: AskerFactory = Asker,
    listener: Callable[[ReductionStep], None] = lambda step: None,
) -> Reduction:
    """Make the case smaller. The case must have one target. `asks` creates the object that tests candidates. Raise
    `NotReducible` if the case cannot be reduced.
    """
    question = CandidateQuestion(case, case.targets[0], signature, votes)
    course = _ReductionRun(checker, question, budget, memos, asks, listener)
    try:
        return course.run()
    except WorkerStartError as error:
        raise BackendUnavailable(f"{case.targets[0]} cannot start: {error}. Run driftline doctor.") from error


class _ReductionRun:
    def __init__(
        self,
        checker: Checker,
        question: CandidateQuestion,
        budget: float,
        memos: Memos,
        asks: AskerFactory,
        listener: Callable[[ReductionStep], None],
    ) -> None:
        self._checker = checker
        self._question = question
        self._memos = memos
        self._asks = asks
        self._listener = listener
        self._began = time.monotonic()
        self._deadline = self._began + budget
        self._folder = checker.pool.workspace.job_folder() / "values"
        self._values = Values(self._folder)
        self._extra_queries = 0

    def run(self) -> Reduction:
        try:
            self._reproduce()
            self._reader = Reader(self._checker, self._question, self._folder)
            for form, start, asker in self._starts():
                search = self._search(start, asker)
                shrinker = self._shrinker(start)
                if shrinker.begins(search):
                    with self._cut_in_flight():
                        minimal = shrinker.shrink(search)
                    return self._concluded(search, asker, form, minimal)
                self._extra_queries += search.queries
        except BudgetEnded as ended:
            raise NotReducible("The budget ended before anything could be tried; give more with --budget.") from ended
        except PoolExpired as ended:
            raise NotReducible(
                "The budget ended before the smallest program could be checked in full. What was asked is kept: the"
                " same command with more --budget goes on from there."
            ) from ended
        raise NotReducible(
            f"{self._question.case.program.name} fails, but not when it is written anew as a graph or as plain text:"
            " what matters lies outside of both, such as shared memory or a file. Reduce it by hand."
        )

    @contextlib.contextmanager
    def _cut_in_flight(self) -> Iterator[None]:
        """Cut off questions that are still running when the search ends: the time after that is for checking the
        result.
        """
        before = self._checker.pool.deadline
        self._checker.pool.deadline = min(before, self._deadline)
        try:
            yield
        finally:
            self._checker.pool.deadline = before

    # -- before ------------------------------------------------------------------------------------------------------

    def _reproduce(self) -> None:
        """Require that the case fails now, and reduce it to one sample if one is enough."""
        case = self._question.case
        reply = self._look(case)
        failed, runs = int(reply.answer is CandidateAnswer.SAME), 1
        tries = self._plain_asker().tries
        while not failed and runs < tries and self._question.votes.runs == 1 and reply.answer is CandidateAnswer.PASS:
            failed, runs = failed + (self._look(case).answer is CandidateAnswer.SAME), runs + 1
        if not failed:
            raise not_now(case, self._question.target, reply, self._plain_asker().words, "reduced")
        if runs > 1:
            self._question = replace(self._question, votes=Votes.for_rate(1, runs))
        for sample in case.samples if len(case.samples) > 1 else ():
            alone = replace(case, samples=(sample,))
            if self._look(alone).answer is CandidateAnswer.SAME:
                self._question = replace(self._question, case=alone)
                return

    def _look(self, case: Case) -> Reply:
        self._extra_queries += 1
        return self._plain_asker().look_at(case)

    def _plain_asker(self) -> Asker:
        """Return an asker for whole cases, which need no writer."""
        return self._asks(self._checker, self._question, self._writer(), GraphCandidate)

    def _writer(self, frame: TextFrame = NO_FRAME) -> CandidateWriter:
        return CandidateWriter(self._checker, self._question, self._folder, frame)

    def _starts(self) -> Iterator[tuple[str, Any, Asker]]:
        """Yield the forms in which the program can be reduced, the best first, each with its asker."""
        framework = self._question.case.program.framework
        if framework in ("onnx", "torch"):
            for tracer in TRACERS if framework == "torch" else ("",):
                graph = self._reader.graph(tracer)
                if graph:
                    asker = self._asker(NO_FRAME, graph, GraphCandidate)
                    yield (f"torch graph ({tracer})" if tracer else "ONNX graph"), graph, asker
        if self._question.case.program.form == "source":
            text, frame = self._reader.text()
            yield "Python text", text, self._asker(frame, text, ProgramText.to_request)

    def _asker(self, frame: TextFrame, start: Any, request_of: Callable[[Any], CandidateRequest]) -> Asker:
        """Return an asker that rejects candidates with flaws which the start does not have."""
        writer = self._writer(frame)
        if self._question.signature.kind != Kind.MISSING_ERROR:  # for a missing error, the reference has no values
            writer.keep_meaning_of(request_of(start))
        return self._asks(self._checker, self._question, writer, request_of)

    # -- the search --------------------------------------------------------------------------------------------------

    def _shrinker(self, start: Any) -> TextShrinker | GraphShrinker:
        if isinstance(start, ProgramText):
            return TextShrinker(self._values)
        numbers_matter = self._question.signature.numbers_matter
        most = self._question.inputs
        return GraphShrinker(
            self._values,
            self._reader.evaluate,
            numbers_matter=numbers_matter,
            most=most,
            nodes_only=self._plain_asker().nodes_only,
        )

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
        nearest, passing = None, None
        with contextlib.suppress(PoolExpired):
            nearest = search.nearest_passing()
            passing = asker.case_of(nearest) if nearest else None
        return Reduction(
            smallest=smallest,
            case=smallest.case if smallest else case,
            nearest=passing,
            nearest_reason=search.reason(nearest) if nearest and passing else "",
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
        """Run the ordinary check. Return the result if the case fails in the same way, otherwise None."""
        self._extra_queries += 1
        return self._plain_asker().check_in_full(case)

    def _plainer_target(self, found: Checked) -> Checked:
        """Remove options of the target that the failure does not need."""
        target = self._question.target
        for option in target.options:
            if option[0] == "device" or time.monotonic() > self._deadline:
                continue
            fewer = replace(target, options=tuple(kept for kept in target.options if kept != option))
            checked = None
            with contextlib.suppress(PoolExpired):
                checked = self._checked(found.case.only(fewer))
            if checked:
                found, target = checked, fewer
        return found

    def _other_failures(self, search: Search[Any], asker: Asker) -> Iterator[Checked]:
        """Yield candidates that failed in another way, after a full check.

        Failures of torch programs are trusted, since torch defines their meaning. The reference evaluators of other
        programs also run invalid programs, so only crashes count there, and errors of candidates that have operators of
        the original unchanged, only fewer.
        """
        trusted = self._question.case.program.framework == "torch"
        for candidate in search.others.values():
            if time.monotonic() > self._deadline + self._question.timeout:
                return
            try:
                case = asker.case_of(candidate)
                if case is None:
                    continue
                outcome = self._checker.check(case)
            except PoolExpired:  # they are met again
                return
            for result in outcome.results:
                failed = result.verdict.judgement is Judgement.FAIL and not result.flaky and not asker.is_same(result)
                kind = result.verdict.kind
                refused = kind is Kind.ERROR and candidate.key in search.cut
                if failed and (trusted or refused or kind is Kind.CRASH):
                    yield Checked(case, result, outcome.reference)
