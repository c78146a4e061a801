"""The predicate: does a candidate fail in the same way? Asked of warm workers, several candidates at a time.

Most targets are *screened*: the candidates are written and referred in one job, run in a second and judged in a third.
What screening does not cover (conversions, other oracles, programs whose reference raises, flaky failures) is *looked
at*, one candidate after the other, by the parts of the ordinary check.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driftline.backends import BACKENDS, resolve
from driftline.checking.batch import Screened, Screening, case_of
from driftline.checking.checker import Checker, declared_arithmetic
from driftline.checking.kinds import worker_for_framework
from driftline.core.case import Case
from driftline.core.errors import InternalError
from driftline.core.execution import Execution
from driftline.core.target import Target
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.diagnose.reduce.search import Answer, Reply
from driftline.diagnose.reduce.signature import Signature
from driftline.oracle.choice import parse_oracle
from driftline.oracle.judge import Trait, judge
from driftline.programs.convert import accepts_directly

SCOUTED = 8  # candidates at a time
PATIENCE = 60.0  # seconds for a candidate, where the case allows more
PATIENCE_FOR_HANGS = 20.0  # where it is a hang that is looked for
MISSED = 0.02  # how often a flaky failure may be missed
MOST_VOTES = 30
_TASKS = "driftline.diagnose.reduce.tasks"


@dataclass(frozen=True)
class Votes:
    """`needed` failures in at most `runs` runs count as failing."""

    needed: int = 1
    runs: int = 1

    @staticmethod
    def for_rate(failed: int, runs: int) -> Votes:
        """Enough runs to see a failure of this rate, all but surely."""
        if not 0 < failed < runs:
            return ONCE
        return Votes(1, min(MOST_VOTES, math.ceil(math.log(MISSED) / math.log(1 - failed / runs))))


ONCE = Votes()


@dataclass(frozen=True)
class Question:
    """What is asked of every candidate: a target, how it should fail, and the case that it is a variation of."""

    case: Case
    target: Target
    signature: Signature
    votes: Votes = ONCE

    @property
    def timeout(self) -> float:
        most = PATIENCE_FOR_HANGS if self.signature.kind == Kind.TIMEOUT else PATIENCE
        return min(self.case.options.timeout, most)

    @property
    def written_form(self) -> str:
        return "onnx" if self.case.program.framework == "onnx" else "source"

    @property
    def screened(self) -> bool:
        """Can it be asked in batches?"""
        options = self.case.options
        backend = BACKENDS.get(self.target.backend)
        return (
            self.votes.runs == 1
            and not options.signed_zero
            and options.oracle == "shadow"
            and self.signature.kind != Kind.MISSING_ERROR
            and accepts_directly(self.written_form, self.case.program.framework, backend.accepts)
        )


class Writer:
    """Has candidates written as programs by a worker of their framework."""

    def __init__(self, checker: Checker, question: Question, values: Path, more: Mapping[str, Any]) -> None:
        self._pool = checker.pool
        self._question = question
        self._values = values
        self._more = more  # what candidates of a certain form need besides

    def write(self, requests: Sequence[Mapping[str, Any]], folder: Path, *, refer: bool) -> list[dict[str, Any]]:
        """As `Screening.prepare` answers: one that takes the worker down is invalid, and the others are made again."""
        case = self._question.case
        payload = {
            **self._more,
            "folder": str(folder),
            "values": str(self._values),
            "requests": list(requests),
            "refer": refer,
            "framework": case.program.framework,
            "name": case.program.name,
            "origins": [sample.origin for sample in case.samples],
            "grad": case.options.grad,
            "seed": case.options.seed,
            "company": "gradients" if case.options.grad else "plain",
            "plugins": list(case.options.plugins),
        }
        worker = worker_for_framework(case.program.framework, case.options.plugins)
        report = self._pool.run(worker, f"{_TASKS}:prepare", payload, timeout=self._question.timeout * 2)
        if report.ending == "done":
            return list(report.result["programs"])
        if len(requests) == 1:
            return [{"invalid": f"its reference run ended with {report.ending} ({report.detail})"}]
        alone = []
        for number, request in enumerate(requests):
            own = folder / f"alone{number}"
            own.mkdir()
            alone += self.write([request], own, refer=refer)
        return alone


class _Screen(Screening):
    """Screening of candidates instead of generated programs."""

    def __init__(self, checker: Checker, question: Question, writer: Writer) -> None:
        options = question.case.options
        super().__init__(
            checker.pool, question.case.program.framework, plugins=options.plugins, timeout=question.timeout
        )
        self._writer = writer

    def prepare(self, requests: Sequence[Mapping[str, Any]], *, sizes: bool = True) -> list[dict[str, Any]]:
        return self._writer.write(requests, self._new_folder(), refer=True)


class Asker:
    """Asks one question about candidates. `request_of` turns a candidate into what the writer needs."""

    def __init__(
        self, checker: Checker, question: Question, writer: Writer, request_of: Callable[[Any], Mapping[str, Any]]
    ) -> None:
        self._checker = checker
        self._question = question
        self._writer = writer
        self._request_of = request_of
        self.internal_errors: list[str] = []

    @property
    def batch(self) -> int:
        """More than one only where that is cheaper than one after the other: some of them are asked about in vain."""
        return SCOUTED if self._question.screened and resolve(self._question.target).together > 1 else 1

    def ask(self, candidates: Sequence[Any]) -> list[Reply]:
        requests = [self._request_of(candidate) for candidate in candidates]
        if not self._question.screened:
            return [self._look(request) for request in requests]
        with _Screen(self._checker, self._question, self._writer) as screen:
            results = screen.screen(requests, self._question.target)
        together = len(candidates) > 1 and resolve(self._question.target).together > 1
        return [replace(self._reply(result), scouted=together) for result in results]

    def case_of(self, candidate: Any) -> Case | None:
        """The candidate as an ordinary case; None when it is not a program."""
        folder = self._checker.pool.workspace.job_folder()
        made = self._writer.write([self._request_of(candidate)], folder, refer=False)[0]
        if "invalid" in made:
            return None
        return case_of(made, self._question.target, self._question.case.options)

    # -- screening ---------------------------------------------------------------------------------------------------

    def _reply(self, result: Screened) -> Reply:
        if result.internal_error:
            self.internal_errors.append(result.internal_error)
            return Reply(Answer.NEITHER, result.reason)
        if result.judgement == "pass":
            return Reply(Answer.PASS, result.reason)
        if result.judgement != "fail":
            return Reply(Answer.NEITHER, f"{result.judgement}: {result.reason}", ran=result.judgement != "invalid")
        return self._failed(Signature.of(result.stage, result.kind, result.reason), result.reason)

    def _failed(self, seen: Signature, reason: str) -> Reply:
        if self._question.signature.covers(seen):
            return Reply(Answer.SAME, reason)
        if seen.kind in (Kind.TIMEOUT, Kind.OOM, Kind.BIAS):  # may well be a matter of our own haste
            return Reply(Answer.NEITHER, reason)
        return Reply(Answer.OTHER, reason, str(seen))

    # -- looking -----------------------------------------------------------------------------------------------------

    def _look(self, request: Mapping[str, Any]) -> Reply:
        folder = self._checker.pool.workspace.job_folder()
        refer = self._question.signature.kind != Kind.MISSING_ERROR
        made = self._writer.write([request], folder, refer=refer)[0]
        if "invalid" in made:
            return Reply(Answer.NEITHER, made["invalid"], ran=False)
        options = replace(self._question.case.options, timeout=self._question.timeout)
        return self.look_at(case_of(made, self._question.target, options))

    def look_at(self, case: Case) -> Reply:
        """Run a case as often as the votes say."""
        votes = self._question.votes
        try:
            reference = self._checker.reference(case)
            failed, last = 0, Reply(Answer.NEITHER, "never run")
            for _ in range(votes.runs):
                execution = self._checker.execute(case, self._question.target, fresh=votes.runs > 1)
                last = self._judged(execution, judge(execution, reference, self._trait(execution)))
                failed += last.answer is Answer.SAME
                if failed >= votes.needed:
                    return Reply(Answer.SAME, last.reason)
            return last if last.answer is not Answer.SAME else Reply(Answer.PASS, f"{failed} of {votes.runs} runs fail")
        except InternalError as error:
            self.internal_errors.append(str(error))
            return Reply(Answer.NEITHER, "Driftline itself failed")

    def _trait(self, execution: Execution) -> Trait:
        backend = BACKENDS.get(self._question.target.backend)
        options = self._question.case.options
        return Trait(
            calls_user_code=backend.mutates,
            positional=bool(execution.converter) or backend.renames_outputs,
            signed_zero=options.signed_zero,
            arithmetic=declared_arithmetic(backend, self._question.target),
            tolerance=parse_oracle(options.oracle),
        )

    def _judged(self, execution: Execution, verdict: Verdict) -> Reply:
        if verdict.judgement is Judgement.PASS:
            return Reply(Answer.PASS, verdict.reason)
        if verdict.judgement is not Judgement.FAIL:
            return Reply(Answer.NEITHER, f"{verdict.judgement}: {verdict.reason}")
        told = str(execution.failure) if execution.failure else verdict.reason
        return self._failed(Signature.of(str(execution.stage), str(verdict.kind), told), verdict.reason)
