"""Run the searches of `driftline.diagnose` for bugs about cost: the searches are the same, only the question differs.

Timings run one after another, since they would disturb each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from driftline.campaign.explain.failing import Failing
from driftline.campaign.explain.inquiry import AskRelease
from driftline.checking.checker import Checker, TargetResult
from driftline.core.case import Case
from driftline.core.errors import DriftlineError
from driftline.core.evidence import Evidence
from driftline.core.execution import Execution, Outcome, Stage
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.diagnose.bisect import ReleaseAnswer
from driftline.diagnose.reduce.asking import Asker, CandidateWriter, Checked
from driftline.diagnose.reduce.question import CandidateQuestion
from driftline.diagnose.reduce.requests import CandidateRequest
from driftline.diagnose.reduce.search import BudgetEnded, CandidateAnswer, Reply
from driftline.diagnose.trials import TrialWords
from driftline.events import Listener, Working, ignore
from driftline.execute.pool import PoolExpired
from driftline.oracle.judge import Reference
from driftline.perf.comparison import Effort
from driftline.perf.question import CostAnswer, CostQuestion, question_of
from driftline.perf.recording import SlowMeasurement, measurement_of
from driftline.perf.twins import MADE_TWINS
from driftline.store import Store

_SLOW = TrialWords("take too long", "is fast", "makes it fast", measured=True)
_GROWTH = TrialWords(
    "grow too fast", "grows no faster than its program", "makes it grow no faster than its program", measured=True
)
_HALF = 0.5  # share of the excess cost: less than that counts as much better


class CostInquiry:
    """Provides the question of a stored finding in the forms that the searches need."""

    def __init__(
        self,
        checker: Checker,
        store: Store,
        failing: Failing,
        *,
        effort: Effort | None = None,
        listener: Listener = ignore,
    ) -> None:
        def tell(words: str) -> None:
            listener(Working(failing.bug.id, words))

        self._checker = checker
        self._failing = failing
        self._kind = Kind(failing.bug.fingerprint.kind)
        self._question: CostQuestion = question_of(store, failing.bug, failing.finding, effort=effort, tell=tell)
        self.message = self._question.message

    def asker(
        self,
        checker: Checker,
        question: CandidateQuestion,
        writer: CandidateWriter,
        request_of: Callable[[Any], CandidateRequest],
    ) -> Asker:
        _require_reducible(self._failing)
        return _CostAsker(checker, question, writer, request_of, self._question, self._kind)

    def trials(self, case: Case) -> CostTrials:
        return CostTrials(self._checker, case, self._question, _words(self._kind))

    def releases(self, case: Case) -> AskRelease:
        def ask(checker: Checker, target: Target) -> tuple[ReleaseAnswer, str]:
            found = self._question.ask(checker, case, target, sure=True)
            answers = {True: ReleaseAnswer.BAD, False: ReleaseAnswer.GOOD, None: ReleaseAnswer.SKIP}
            return answers[found.still], found.reason

        return ask


def _require_reducible(failing: Failing) -> None:
    """Raise for a finding about a given twin: a smaller program has no twin."""
    bug = failing.bug
    kept = measurement_of(bug, failing.finding)
    if isinstance(kept, SlowMeasurement) and kept.baseline_case and kept.row.against not in MADE_TWINS:
        raise DriftlineError(
            f"{bug.id} is slower than a twin program, and a smaller program has no twin to be held against."
            f" driftline ablate {bug.id} finds what makes it slow."
        )


class CostTrials:
    """Tests on several targets whether one program is still too expensive."""

    def __init__(self, checker: Checker, case: Case, question: CostQuestion, words: TrialWords) -> None:
        self._checker = checker
        self._case = case
        self._question = question
        self.words = words
        self.internal_errors: list[str] = []

    def ask(self, target: Target, *, fresh: bool = False) -> Reply:
        """Test a target and return PASS, SAME or NEITHER.

        NEITHER means that the program costs much less but still too much, or no longer too much but not much less;
        another measurement may say otherwise. PASS includes targets that take most of a large cost away, even if the
        rest lies slightly beyond the limit. A twin stays on the target of the case, since an option that only makes the
        twin slow is no cure.
        """
        try:
            found = self._question.ask(self._checker, self._case, target, sure=fresh, twin_on=self._case.targets[0])
        except PoolExpired as ended:
            raise BudgetEnded from ended
        usual, limit = self._question.usual, self._question.limit
        told = f"{found.reason}, instead of {usual:.2f}"
        half = 1 + _HALF * (usual - 1)
        if limit < found.most <= min(self._question.fair, half):
            return Reply(CandidateAnswer.PASS, told)
        if found.still and found.amount < half:
            return Reply(CandidateAnswer.NEITHER, f"better, and still too much: {told}")
        if found.still is False and half < found.most <= limit:
            return Reply(CandidateAnswer.NEITHER, f"no longer too much, and not much better: {told}")
        return _reply(found)


class _CostAsker(Asker):
    """Tests the candidates of a reduction, one after another."""

    tries = 1
    nodes_only = True  # a smaller tensor is no clearer: it only takes less time

    def __init__(
        self,
        checker: Checker,
        question: CandidateQuestion,
        writer: CandidateWriter,
        request_of: Callable[[Any], CandidateRequest],
        cost: CostQuestion,
        kind: Kind,
    ) -> None:
        super().__init__(checker, question, writer, request_of)
        self._cost = cost
        self._kind = kind
        self.words = _words(kind)

    @property
    def batch(self) -> int:
        return 1

    def ask(self, candidates: Sequence[Any]) -> list[Reply]:
        return [self._look(self._request_of(candidate)) for candidate in candidates]

    def look_at(self, case: Case) -> Reply:
        return _reply(self._cost.ask(self._checker, case, self._question.target))

    def check_in_full(self, case: Case) -> Checked | None:
        target = case.targets[0]
        found = self._cost.ask(self._checker, case, target, sure=True)
        if not found.still:
            return None
        stage = Stage.RUN if self._kind is Kind.SLOW else Stage.COMPILE
        verdict = Verdict(Judgement.FAIL, found.sentence, self._kind, Evidence(stage=str(stage)))
        execution = Execution(str(target), Outcome.OK, stage)
        return Checked(case, TargetResult(target, execution, verdict, failed_runs=(2, 2)), Reference())


def _words(kind: str) -> TrialWords:
    return _SLOW if kind == Kind.SLOW else _GROWTH


def _reply(found: CostAnswer) -> Reply:
    answers = {True: CandidateAnswer.SAME, False: CandidateAnswer.PASS, None: CandidateAnswer.NEITHER}
    return Reply(answers[found.still], found.reason, lasting=found.still is not None)
