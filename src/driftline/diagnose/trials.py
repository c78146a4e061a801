"""Test one failing case on several targets. The reference results are computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from driftline.checking.checker import Checker
from driftline.core.case import Case
from driftline.core.errors import InternalError
from driftline.core.target import Target
from driftline.core.verdict import Judgement
from driftline.diagnose.reduce.question import ONCE, Votes
from driftline.diagnose.reduce.search import BudgetEnded, CandidateAnswer, Reply
from driftline.diagnose.reduce.signature import Signature
from driftline.execute.pool import PoolExpired, WorkerStartError
from driftline.oracle.judge import Reference


@dataclass(frozen=True)
class TrialWords:
    """The words with which a search reports its answers."""

    still: str = "fail in the same way"
    gone: str = "passes"
    cure: str = "makes it pass"
    measured: bool = False  # True: the answer NEITHER means that nothing is known, not that the failure is gone


WRONG_RESULTS = TrialWords()


class TargetTrials(Protocol):
    """Tests on several targets whether a bug is still there."""

    words: TrialWords
    internal_errors: list[str]

    def ask(self, target: Target, *, fresh: bool = False) -> Reply:
        """Test a target. `fresh`: in new processes, and with the care that a result requires."""
        ...


class Trials:
    """Tests on several targets whether a case fails in its known way."""

    def __init__(self, checker: Checker, case: Case, signature: Signature, votes: Votes = ONCE) -> None:
        self._checker = checker
        self._case = case
        self._signature = signature.of_any_fault()
        self._votes = votes
        self.words = WRONG_RESULTS
        self.internal_errors: list[str] = []

    @cached_property
    def _reference(self) -> Reference:
        return self._checker.reference(self._case)

    def ask(self, target: Target, *, fresh: bool = False) -> Reply:
        """Test a target as often as a flaky failure needs; a single failure in the same way is enough."""
        reply = self._once(target, fresh)
        for _ in range(self._votes.runs - 1):
            if reply.answer is not CandidateAnswer.PASS:
                break
            reply = self._once(target, fresh=True)
        return reply

    def _once(self, target: Target, fresh: bool) -> Reply:
        try:
            execution = self._checker.execute(self._case, target, fresh=fresh)
            verdict = self._checker.judge(self._case, target, execution, self._reference)
        except PoolExpired as ended:
            raise BudgetEnded from ended
        except WorkerStartError as error:
            return Reply(CandidateAnswer.NEITHER, f"cannot start: {error}")
        except InternalError as error:
            self.internal_errors.append(str(error))
            return Reply(CandidateAnswer.NEITHER, "Driftline itself failed")
        if verdict.agrees:
            return Reply(CandidateAnswer.PASS, verdict.reason)
        if verdict.judgement is not Judgement.FAIL:
            return Reply(CandidateAnswer.NEITHER, f"{verdict.judgement}: {execution.problem or verdict.reason}")
        seen = Signature.of_verdict(execution, verdict)
        if self._signature.covers(seen):
            return Reply(CandidateAnswer.SAME, verdict.reason)
        return Reply(CandidateAnswer.OTHER, verdict.reason, str(seen))
