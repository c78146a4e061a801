"""The predicate: does a candidate fail in the same way? Asked of warm workers, several candidates at a time.

Most targets are *screened*: the candidates are written and referred in one job, run in a second and judged in a third.
Candidates that are one program on other inputs are run as samples of it, which is one question. What screening does not
cover (conversions, other oracles, programs whose reference raises, flaky failures) is *looked at*, one candidate after
the other, by the parts of the ordinary check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from driftline.backends import BACKENDS, resolve
from driftline.checking.batch import Screened, Screening, case_of
from driftline.checking.checker import Checker, declared_arithmetic
from driftline.checking.kinds import worker_for_framework
from driftline.core.case import Case
from driftline.core.errors import InternalError
from driftline.core.execution import Execution
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.diagnose.reduce.question import Question
from driftline.diagnose.reduce.search import Answer, Reply
from driftline.diagnose.reduce.signature import Signature
from driftline.oracle.choice import parse_oracle
from driftline.oracle.judge import Trait, judge

SCOUTED = 8  # candidates at a time
_DIED = "its reference run ended with"
_TASKS = "driftline.diagnose.reduce.tasks"


class Writer:
    """Has candidates written as programs by a worker of their framework."""

    def __init__(self, checker: Checker, question: Question, values: Path, more: Mapping[str, Any]) -> None:
        self._pool = checker.pool
        self._question = question
        self._values = values
        self._more = more  # what candidates of a certain form need besides
        self._meaningful = False
        self._allowed: list[str] | None = None

    def keep_meaning_of(self, request: Mapping[str, Any]) -> None:
        """From now on, candidates that make no sense where this one does are no programs (see `meaning.py`)."""
        self._meaningful = True
        made = self.write([request], self._pool.workspace.job_folder(), refer=True)[0]
        self._allowed = made.get("flaws")  # unknown where it does not run: then nothing is asked of the others

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
            "meaningful": self._meaningful,
            "allowed": self._allowed,
        }
        worker = worker_for_framework(case.program.framework, case.options.plugins)
        report = self._pool.run(worker, f"{_TASKS}:prepare", payload, timeout=self._question.timeout * 2)
        if report.ending == "done":
            return list(report.result["programs"])
        if len(requests) == 1:
            return [{"invalid": f"{_DIED} {report.ending} ({report.detail})"}]
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
        if not self._question.screened:
            return [self._look(self._request_of(candidate)) for candidate in candidates]
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
                # The first input of a program is run as if it were alone: what comes after changes nothing.
                replies[candidate.key] = replace(reply, scouted=together or not reply.questions)
        return [replies[candidate.key] for candidate in candidates]

    def _request(self, alike: Sequence[Any]) -> Mapping[str, Any]:
        """One program; what its inputs hold in the first candidate, and in the others."""
        others = [[leaf.data for leaf in other.leaves] for other in alike[1:]]
        return {**self._request_of(alike[0]), **({"others": others} if others else {})}

    def case_of(self, candidate: Any) -> Case | None:
        """The candidate as an ordinary case; None when it is not a program."""
        folder = self._checker.pool.workspace.job_folder()
        made = self._writer.write([self._request_of(candidate)], folder, refer=False)[0]
        if "invalid" in made:
            return None
        return case_of(made, self._question.target, self._question.case.options)

    # -- screening ---------------------------------------------------------------------------------------------------

    def _replies(self, alike: Sequence[Any], result: Screened) -> list[Reply]:
        """To candidates that are one program, each by the verdict on its own inputs."""
        if len(alike) == 1:
            return [self._reply(result)]
        if not result.each:
            refused = result.judgement == "rejected" and not result.sample  # else the inputs before were taken
            of_all = refused or result.judgement == "invalid" or result.stage == "COMPILE"
            if of_all and not result.reason.startswith(_DIED):
                return _as_one_question([self._reply(result)] * len(alike))
            return self._apart(alike, self._reply(result))
        assert result.made
        samples = len(self._question.case.samples)
        verdicts = iter(result.each)
        replies = []
        for unfit in result.made["unfit"]:
            if unfit:
                replies.append(Reply(Answer.NEITHER, unfit, ran=False))
            else:
                told = _telling([next(verdicts) for _ in range(samples)])
                replies.append(self._reply(replace(result, **told)))
        return _as_one_question(replies)

    def _apart(self, alike: Sequence[Any], all_together: Reply) -> list[Reply]:
        """The run of some inputs ended all. When it does so on the first and on the last, it most likely does on every
        one: the others are not run."""
        ends = [self.ask([alike[at]])[0] for at in (0, -1)]
        ends[0] = replace(ends[0], questions=ends[0].questions + all_together.ran)
        rest = alike[1:-1]
        if all(map(all_together.is_like, ends)):
            return [ends[0], *(replace(all_together, questions=0) for _ in rest), ends[1]]
        half = len(rest) // 2
        return [ends[0], *(reply for part in (rest[:half], rest[half:]) if part for reply in self.ask(part)), ends[1]]

    def _reply(self, result: Screened) -> Reply:
        if result.internal_error:
            self.internal_errors.append(result.internal_error)
            return Reply(Answer.NEITHER, result.reason)
        if result.judgement == "pass":
            return Reply(Answer.PASS, result.reason)
        if result.judgement != "fail":
            return Reply(Answer.NEITHER, f"{result.judgement}: {result.reason}", ran=result.judgement != "invalid")
        seen = Signature.of(result.stage, result.kind, result.reason, result.evidence)
        return replace(self._failed(seen, result.reason), output=result.output)

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
        seen = Signature.of_verdict(execution, verdict)
        return replace(self._failed(seen, verdict.reason), output=str(verdict.evidence.get("output", "")))


def _telling(verdicts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The one that says most: a failure, else a pass."""
    ranks = {"fail": 0, "pass": 1}
    told = min(verdicts, key=lambda verdict: ranks.get(verdict["judgement"], 2))
    return {key: told.get(key) or "" for key in ("judgement", "reason", "kind", "evidence", "output")}


def _as_one_question(replies: Sequence[Reply]) -> list[Reply]:
    """It is counted once, with the first that was run."""
    asked = next((at for at, reply in enumerate(replies) if reply.ran), 0)
    return [replace(reply, questions=int(at == asked)) for at, reply in enumerate(replies)]
