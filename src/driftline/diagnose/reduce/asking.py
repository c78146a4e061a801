"""Test whether candidates fail in the same way as the original, several at a time, in warm workers.

Most targets are *screened*: the candidates are written and referred in one job, run in a second and judged in a third.
Candidates that are one program on other inputs are run as samples of it, which is one question. What screening does not
cover (conversions, other oracles, programs whose reference raises, flaky failures) is *looked at*, each candidate by
itself, by the parts of the ordinary check. Either way several are asked about side by side where there are processors
for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driftline.backends import BACKENDS, resolve
from driftline.checking.batch import case_of, died
from driftline.checking.batch_requests import Prepared, PreparedProgram, SampleVerdict
from driftline.checking.checker import Checker, TargetResult, declared_arithmetic
from driftline.checking.kinds import worker_for_framework
from driftline.checking.room import jobs_for
from driftline.checking.screener import Screener, ScreenResult
from driftline.core.case import Case
from driftline.core.errors import InternalError
from driftline.core.execution import Execution
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.diagnose.reduce.question import CandidateQuestion
from driftline.diagnose.reduce.requests import (
    NO_FRAME,
    WRITE,
    CandidateRequest,
    TextCandidate,
    TextFrame,
    WriteRequest,
)
from driftline.diagnose.reduce.search import CandidateAnswer, Reply
from driftline.diagnose.reduce.signature import Signature
from driftline.diagnose.trials import WRONG_RESULTS
from driftline.execute.ahead import ahead
from driftline.oracle.choice import parse_oracle
from driftline.oracle.judge import Reference, TargetTraits, judge

SCOUTED = 8  # candidates at a time
TRIES = 10  # of a case that is said to fail and passes, before it is given up

_Result = ScreenResult[CandidateRequest]


def side_by_side(checker: Checker, question: CandidateQuestion) -> int:
    """Return how many candidates run at once: half of the jobs, since about half of the answers are not needed."""
    return max(1, jobs_for(question.case.program, checker.jobs) // 2)


class CandidateWriter:
    """Writes candidates as programs, in a worker of their framework."""

    def __init__(
        self, checker: Checker, question: CandidateQuestion, values: Path, frame: TextFrame = NO_FRAME
    ) -> None:
        self._pool = checker.pool
        self._question = question
        self._values = values
        self._frame = frame
        self._meaningful = False
        self._allowed: tuple[str, ...] | None = None

    def keep_meaning_of(self, request: CandidateRequest) -> None:
        """From now on, reject candidates that have flaws which this one does not have (see `meaning.py`)."""
        self._meaningful = True
        made = self.write([request], self._pool.workspace.job_folder(), refer=True)[0]
        # Unknown if it does not run; then flaws of other candidates are ignored.
        self._allowed = made.flaws if isinstance(made, PreparedProgram) else None

    def write(self, requests: Sequence[CandidateRequest], folder: Path, *, refer: bool) -> list[Prepared]:
        """Write candidates as programs, and with `refer` run their references. If a candidate kills the worker, that
        candidate is invalid, and the others are written again one by one.
        """
        case = self._question.case
        request = WriteRequest(
            folder,
            self._values,
            tuple(requests),
            refer,
            framework=case.program.framework,
            name=case.program.name,
            origins=tuple(sample.origin for sample in case.samples),
            grad=case.options.grad,
            seed=case.options.seed,
            company="gradients" if case.options.grad else "plain",
            frame=self._frame,
            meaningful=self._meaningful,
            allowed=self._allowed,
            plugins=case.options.plugins,
        )
        worker = worker_for_framework(case.program.framework, case.options.plugins)
        report = self._pool.run(worker, WRITE, request, timeout=self._question.timeout * 2)
        if report.answer is not None:
            return list(report.answer.programs)
        if len(requests) == 1:
            return [died(report)]
        alone: list[Prepared] = []
        for number, candidate in enumerate(requests):
            own = folder / f"alone{number}"
            own.mkdir()
            alone += self.write([candidate], own, refer=refer)
        return alone


class _Screen(Screener[CandidateRequest]):
    """Screens the candidates of a reduction instead of generated programs."""

    def __init__(self, checker: Checker, question: CandidateQuestion, writer: CandidateWriter) -> None:
        options = question.case.options
        super().__init__(
            checker.pool,
            question.case.program.framework,
            plugins=options.plugins,
            timeout=question.timeout,
            shards=side_by_side(checker, question),
        )
        self._writer = writer

    def prepare(self, requests: Sequence[CandidateRequest], *, sizes: bool = True) -> list[Prepared]:
        return self._writer.write(requests, self._new_folder(), refer=True)


@dataclass(frozen=True)
class Checked:
    """A program that went through the ordinary check."""

    case: Case
    result: TargetResult
    reference: Reference


class Asker:
    """Tests candidates for one question. `request_of` converts a candidate for the writer."""

    tries = TRIES
    nodes_only = False  # shapes, dtypes and numbers stay as they are
    words = WRONG_RESULTS

    def __init__(
        self,
        checker: Checker,
        question: CandidateQuestion,
        writer: CandidateWriter,
        request_of: Callable[[Any], CandidateRequest],
    ) -> None:
        self._checker = checker
        self._question = question
        self._writer = writer
        self._request_of = request_of
        self.internal_errors: list[str] = []

    @property
    def batch(self) -> int:
        """The number of programs to test at a time: as many as run side by side, or more if a batch is cheaper than one
        after another. Some answers are then not needed.
        """
        together = self._question.screened and resolve(self._question.target).together > 1
        return max(SCOUTED if together else 1, side_by_side(self._checker, self._question))

    def ask(self, candidates: Sequence[Any]) -> list[Reply]:
        if not self._question.screened:
            jobs = side_by_side(self._checker, self._question)
            return list(ahead(self._look, map(self._request_of, candidates), jobs))
        programs: dict[str, list[Any]] = {}
        for candidate in candidates:
            apart = self._question.inputs == 1
            programs.setdefault(candidate.key if apart else candidate.program, []).append(candidate)
        with _Screen(self._checker, self._question, self._writer) as screen:
            results = screen.screen([self._request(alike) for alike in programs.values()], self._question.target)
        together = len(programs) > 1 and resolve(self._question.target).together > 1
        replies: dict[str, Reply] = {}
        for alike, result in zip(programs.values(), results, strict=True):
            for candidate, reply in zip(alike, self._replies(alike, result), strict=True):
                # The first input of a program runs as if it were alone, since later inputs do not affect it.
                replies[candidate.key] = replace(reply, scouted=together or not reply.questions)
        return [replies[candidate.key] for candidate in candidates]

    def _request(self, alike: Sequence[Any]) -> CandidateRequest:
        """Return one request for candidates that differ only in the values of their inputs."""
        request = self._request_of(alike[0])
        if isinstance(request, TextCandidate):
            return request
        return replace(request, others=tuple(tuple(leaf.data for leaf in other.leaves) for other in alike[1:]))

    def case_of(self, candidate: Any) -> Case | None:
        """Return the candidate as an ordinary case, or None if it is not a valid program."""
        folder = self._checker.pool.workspace.job_folder()
        made = self._writer.write([self._request_of(candidate)], folder, refer=False)[0]
        if not isinstance(made, PreparedProgram):
            return None
        return case_of(made, self._question.target, self._question.case.options)

    def check_in_full(self, case: Case) -> Checked | None:
        """Run the ordinary check. Return the result if the case fails in the same way, otherwise None."""
        outcome = self._checker.check(case)
        result = outcome.results[0] if outcome.results else None
        if result is None or result.verdict.judgement is not Judgement.FAIL or not self.is_same(result):
            return None
        return Checked(case, result, outcome.reference)

    def is_same(self, result: TargetResult) -> bool:
        return self._question.signature.covers(Signature.of_verdict(result.execution, result.verdict))

    # -- screening ---------------------------------------------------------------------------------------------------

    def _replies(self, alike: Sequence[Any], result: _Result) -> list[Reply]:
        """Return the replies to candidates of one program, each by the verdict on its own inputs."""
        if len(alike) == 1:
            return [self._reply(result)]
        if not result.each:
            refused = result.judgement == "rejected" and not result.sample  # else the inputs before were taken
            of_all = refused or result.judgement == "invalid" or result.stage == "COMPILE"
            if of_all and not result.died:
                return _as_one_question([self._reply(result)] * len(alike))
            return self._apart(alike, self._reply(result))
        assert result.made
        samples = len(self._question.case.samples)
        verdicts = iter(result.each)
        replies = []
        for unfit in result.made.unfit:
            if unfit:
                replies.append(Reply(CandidateAnswer.NEITHER, unfit, ran=False))
            else:
                told = _telling([next(verdicts) for _ in range(samples)])
                plain = replace(result, judgement=told.judgement, reason=told.reason, kind=told.kind)
                replies.append(self._reply(replace(plain, evidence=told.evidence)))
        return _as_one_question(replies)

    def _apart(self, alike: Sequence[Any], all_together: Reply) -> list[Reply]:
        """Test candidates one by one after their joint run ended early. If the first and the last end in the same way,
        the others are assumed to do so and are not run.
        """
        ends = [self.ask([alike[at]])[0] for at in (0, -1)]
        ends[0] = replace(ends[0], questions=ends[0].questions + all_together.ran)
        rest = alike[1:-1]
        if all(map(all_together.is_like, ends)):
            return [ends[0], *(replace(all_together, questions=0) for _ in rest), ends[1]]
        half = len(rest) // 2
        return [ends[0], *(reply for part in (rest[:half], rest[half:]) if part for reply in self.ask(part)), ends[1]]

    def _reply(self, result: _Result) -> Reply:
        if result.internal_error:
            self.internal_errors.append(result.internal_error)
            return Reply(CandidateAnswer.NEITHER, result.reason)
        if result.judgement == "pass":
            return Reply(CandidateAnswer.PASS, result.reason)
        if result.judgement != "fail":
            return Reply(
                CandidateAnswer.NEITHER, f"{result.judgement}: {result.reason}", ran=result.judgement != "invalid"
            )
        seen = Signature.of(result.stage, result.kind, result.evidence)
        return replace(self._failed(seen, result.reason), output=result.evidence.output)

    def _failed(self, seen: Signature, reason: str) -> Reply:
        if self._question.signature.covers(seen):
            return Reply(CandidateAnswer.SAME, reason)
        if seen.kind in (Kind.TIMEOUT, Kind.OOM, Kind.BIAS):  # may well be a matter of our own haste
            return Reply(CandidateAnswer.NEITHER, reason)
        return Reply(CandidateAnswer.OTHER, reason, str(seen))

    # -- looking -----------------------------------------------------------------------------------------------------

    def _look(self, request: CandidateRequest) -> Reply:
        folder = self._checker.pool.workspace.job_folder()
        refer = self._question.signature.kind != Kind.MISSING_ERROR
        made = self._writer.write([request], folder, refer=refer)[0]
        if not isinstance(made, PreparedProgram):
            return Reply(CandidateAnswer.NEITHER, made.reason, ran=False)
        options = replace(self._question.case.options, timeout=self._question.timeout)
        return self.look_at(case_of(made, self._question.target, options))

    def look_at(self, case: Case) -> Reply:
        """Run a case as often as the votes require, and return the reply."""
        votes = self._question.votes
        try:
            reference = self._checker.reference(case)
            failed, last = 0, Reply(CandidateAnswer.NEITHER, "never run")
            for _ in range(votes.runs):
                execution = self._checker.execute(case, self._question.target, fresh=votes.runs > 1)
                last = self._judged(execution, judge(execution, reference, self._trait(execution)))
                failed += last.answer is CandidateAnswer.SAME
                if failed >= votes.needed:
                    return Reply(CandidateAnswer.SAME, last.reason)
            return (
                last
                if last.answer is not CandidateAnswer.SAME
                else Reply(CandidateAnswer.PASS, f"{failed} of {votes.runs} runs fail")
            )
        except InternalError as error:
            self.internal_errors.append(str(error))
            return Reply(CandidateAnswer.NEITHER, "Driftline itself failed")

    def _trait(self, execution: Execution) -> TargetTraits:
        backend = BACKENDS.get(self._question.target.backend)
        options = self._question.case.options
        return TargetTraits(
            calls_user_code=backend.mutates,
            positional=bool(execution.converter) or backend.renames_outputs,
            signed_zero=options.signed_zero,
            arithmetic=declared_arithmetic(backend, self._question.target),
            tolerance=parse_oracle(options.oracle),
        )

    def _judged(self, execution: Execution, verdict: Verdict) -> Reply:
        if verdict.judgement is Judgement.PASS:
            return Reply(CandidateAnswer.PASS, verdict.reason)
        if verdict.judgement is not Judgement.FAIL:
            return Reply(CandidateAnswer.NEITHER, f"{verdict.judgement}: {verdict.reason}")
        seen = Signature.of_verdict(execution, verdict)
        return replace(self._failed(seen, verdict.reason), output=verdict.evidence.output)


AskerFactory = Callable[[Checker, CandidateQuestion, CandidateWriter, Callable[[Any], CandidateRequest]], Asker]


def _telling(verdicts: Sequence[SampleVerdict]) -> SampleVerdict:
    """Return the verdict that says most: a failure, otherwise a pass."""
    ranks = {"fail": 0, "pass": 1}
    return min(verdicts, key=lambda verdict: ranks.get(verdict.judgement, 2))


def _as_one_question(replies: Sequence[Reply]) -> list[Reply]:
    """Count several replies as one question, on the first that was run."""
    asked = next((at for at, reply in enumerate(replies) if reply.ran), 0)
    return [replace(reply, questions=int(at == asked)) for at, reply in enumerate(replies)]
