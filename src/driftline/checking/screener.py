"""Screens many programs on one target in three jobs, instead of three jobs for each program.

A worker of the framework makes the programs and runs their reference, a worker of the target runs them, and the first
worker judges. Isolation is the same as in `check`: a program that kills its worker costs that worker; the others of its
batch continue in the next one.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, Self, TypeVar

from driftline.backends import BACKENDS, resolve
from driftline.checking.batch_requests import (
    JUDGE_MANY,
    InvalidProgram,
    JudgeItem,
    JudgeRequest,
    NothingMade,
    Prepared,
    PreparedProgram,
    ProgramVerdict,
    SampleVerdict,
)
from driftline.checking.checker import declared_arithmetic
from driftline.checking.kinds import worker_for_framework, worker_for_target
from driftline.checking.precision import runs_on_gpu
from driftline.checking.refusals import plain_form, worth_asking
from driftline.core.evidence import NOTHING, Evidence
from driftline.core.execution import Failure, Outcome, Stage, known_stage
from driftline.core.handover import handed, make_folder, records_of, remove_folder
from driftline.core.sentences import ended
from driftline.core.target import Target
from driftline.core.task import Answer, Request, Task
from driftline.core.tensors import Array, Arrays
from driftline.core.verdict import Kind
from driftline.execute.grouping import evenly, in_company
from driftline.execute.pool import Pool, PoolInterrupted, TaskReport, WorkerKind
from driftline.execute.requests import (
    ENDED,
    RESULTS,
    RUN_MANY,
    TENSORS,
    TOGETHER,
    BatchJob,
    Ran,
    ResultLine,
    RunManyRequest,
)
from driftline.execute.shelf import Shelf, load_from
from driftline.execute.slots import of_this_order

_KINDS = {Outcome.ERROR: Kind.ERROR, Outcome.CRASH: Kind.CRASH, Outcome.TIMEOUT: Kind.TIMEOUT, Outcome.OOM: Kind.OOM}

Asked = TypeVar("Asked")  # the type of the requests for programs
_Piece = TypeVar("_Piece")
_Done = TypeVar("_Done")


@dataclass(frozen=True)
class ScreenResult(Generic[Asked]):
    """The result of one request. `judgement`: that of a verdict, `invalid` if the program itself does not run, or
    `nothing` if the generator had no program."""

    request: Asked
    judgement: str
    reason: str = ""
    kind: str = ""
    stage: str = ""
    z: float = 0.0
    sample: int = 0
    evidence: Evidence = NOTHING  # of a failure
    each: tuple[SampleVerdict, ...] = ()  # the verdict on every sample, if requested
    nothing: str = ""  # the name of the reason for `nothing`, where these are counted
    died: str = ""  # how the worker ended that was to make the program, which is then invalid
    internal_error: str = ""  # a fault of Driftline; the judgement is then inconclusive
    made: PreparedProgram | None = None
    coverage: tuple[tuple[str, str], ...] = ()
    behaviour: tuple[str, ...] = ()  # rewrite rules of the compiler that fired, if the compiler reports them
    seconds: Mapping[str, float] = field(default_factory=dict)  # by step: make, run, judge


class Screener(ABC, Generic[Asked]):
    """The programs of one batch and their files, which are deleted after the `with` block."""

    def __init__(
        self,
        pool: Pool,
        form: str,
        *,
        plugins: Sequence[str] = (),
        timeout: float = 60.0,
        shards: int = 1,
        explain: bool = True,
    ) -> None:
        """`shards`: how many workers share a batch. `explain`: find the less precise arithmetic under which a failure
        would be right."""
        self._pool = pool
        self._form = form
        self._plugins = tuple(plugins)
        self._timeout = timeout
        self._shards = shards
        self._explain = explain
        self._numbers = itertools.count()

    def __enter__(self) -> Self:
        self.folder = self._pool.workspace.job_folder()
        return self

    def __exit__(self, *_: object) -> None:
        remove_folder(self.folder)

    def _new_folder(self) -> Path:
        folder = self.folder / str(next(self._numbers))
        make_folder(folder)
        return folder

    @abstractmethod
    def prepare(self, requests: Sequence[Asked], *, sizes: bool = True) -> list[Prepared]:
        """Make the programs. A program that kills the worker is invalid, and the others are made again."""

    def screen(
        self,
        requests: Sequence[Asked],
        target: Target,
        *,
        heard: Mapping[str, int] | None = None,
        made: Sequence[Prepared] | None = None,
        cut: bool = False,
    ) -> list[ScreenResult[Asked]]:
        """Make, run and judge programs; return one result for each request, in order. `heard`: how often each rejection
        was met before; frequent ones are believed. Without `heard`, every rejection by message is tested. `made`: the
        results of `prepared` for these requests, if known. `cut`: if the pool is interrupted after the programs were
        made, return the results of those judged by then."""
        if made is None:
            made = self.prepared(requests, target)
        results = [_as_prepared(request, answer) for request, answer in zip(requests, made, strict=True)]
        runnable = {number: one for number, one in enumerate(made) if isinstance(one, PreparedProgram)}
        together = resolve(target).together
        pieces = [piece for group in self._by_process(runnable, target) for piece in self._pieces(group, together)]
        interrupted = threading.Event()

        def run_and_judge(piece: Mapping[int, PreparedProgram]) -> tuple[dict[int, Ran], dict[int, ProgramVerdict]]:
            try:
                return ({}, {}) if interrupted.is_set() else self._run_and_judge(piece, target)
            except PoolInterrupted:
                if not cut:
                    raise
                interrupted.set()
                return {}, {}

        executions: dict[int, Ran] = {}
        for done, verdicts in self._side_by_side(run_and_judge, pieces):
            executions |= done
            for number, verdict in verdicts.items():
                results[number] = _judged(results[number], verdict)
        try:
            executions |= {} if interrupted.is_set() else self._not_believed(runnable, executions, target, heard)
        except PoolInterrupted:
            if not cut:
                raise
            interrupted.set()
        if interrupted.is_set():  # rejections can no longer be tested
            executions = {number: ran for number, ran in executions.items() if ran.outcome is not Outcome.REJECTED}
        for number, ran in executions.items():
            took = {**results[number].seconds, "run": sum(ran.durations.values())}
            results[number] = replace(results[number], behaviour=ran.behaviour, seconds=took)
            if ran.outcome is not Outcome.OK:
                results[number] = _ended(results[number], runnable[number], ran)
        return [result for result in results if result.judgement] if interrupted.is_set() else results

    def _not_believed(
        self,
        programs: Mapping[int, PreparedProgram],
        executions: Mapping[int, Ran],
        target: Target,
        heard: Mapping[str, int] | None,
    ) -> dict[int, Ran]:
        """Return the rejections that are errors, as error results: the plainest form of the compiler runs the
        program."""
        refused = {number: ran for number, ran in sorted(executions.items()) if ran.outcome is Outcome.REJECTED}
        forms = {
            number: plain_form(target.also(programs[number].options), ran.failure) for number, ran in refused.items()
        }
        in_words = [(number, str(refused[number].failure)) for number, form in forms.items() if form]
        plain = next((form for form in forms.values() if form), None)
        if plain is None:
            return {}
        plainly = {number: replace(programs[number], options=()) for number in worth_asking(in_words, heard)}
        asked = self._execute(plainly, plain)
        taken = [number for number, ran in asked.items() if ran.outcome is Outcome.OK]
        return {number: replace(refused[number], outcome=Outcome.ERROR) for number in taken}

    # -- in pieces, for a hunt with more processors than targets -----------------------------------------------------

    def prepared(self, requests: Sequence[Asked], target: Target) -> list[Prepared]:
        """Make the programs for a target, in parallel."""
        sizes = BACKENDS.get(target.backend).sizes
        pieces = list(evenly(requests, self._shards))
        done = self._side_by_side(lambda piece: self.prepare(piece, sizes=sizes), pieces)
        return [answer for answers in done for answer in answers]

    def _by_process(self, programs: Mapping[int, PreparedProgram], target: Target) -> list[dict[int, PreparedProgram]]:
        """Group programs by the process that runs them. Programs with options of their own share a process with
        the others, unless a compiler reads options when its process starts or the options change the precision to
        judge by."""
        by_options: dict[tuple[tuple[str, str], ...], dict[int, PreparedProgram]] = {}
        for number, made in programs.items():
            by_options.setdefault(made.options, {})[number] = made
        groups: dict[tuple[WorkerKind, str], dict[int, PreparedProgram]] = {}
        for options, members in by_options.items():
            own = target.also(options)
            backend = resolve(own)
            worker = worker_for_target(backend, own, self._plugins)
            groups.setdefault((worker, declared_arithmetic(backend, own)), {}).update(members)
        return list(groups.values())

    def _pieces(self, programs: Mapping[int, PreparedProgram], together: int) -> list[dict[int, PreparedProgram]]:
        """Split programs into the pieces that workers take. Programs that are compiled together stay together, so there
        are more pieces than workers. Those with gradients or several sizes compile slowest and come first, so that all
        workers end at about the same time."""
        if self._shards == 1 or together == 1:
            return [dict(piece) for piece in evenly(list(programs.items()), self._shards)]
        pieces = [dict(group) for group in in_company(programs.items(), lambda item: _company(item[1]), together)]
        return sorted(pieces, key=lambda piece: next(iter(piece.values())).company == "plain")

    def _side_by_side(self, work: Callable[[_Piece], _Done], pieces: Sequence[_Piece]) -> list[_Done]:
        if len(pieces) < 2 or self._shards == 1:
            return [work(piece) for piece in pieces]
        with ThreadPoolExecutor(self._shards) as threads:
            return list(threads.map(lambda run, piece: run(piece), [of_this_order(work) for _ in pieces], pieces))

    # -- running -----------------------------------------------------------------------------------------------------

    def _run_and_judge(
        self, programs: Mapping[int, PreparedProgram], target: Target
    ) -> tuple[dict[int, Ran], dict[int, ProgramVerdict]]:
        executions = self._execute(programs, target)
        ran = {number: execution for number, execution in executions.items() if execution.outcome is Outcome.OK}
        return executions, self._judge(programs, ran, target)

    def _execute(self, programs: Mapping[int, PreparedProgram], target: Target) -> dict[int, Ran]:
        """Run all programs in one process (see `_by_process`) and return the results by number."""
        if not programs:
            return {}
        backend = resolve(target)
        worker = worker_for_target(backend, _with_options(programs, target), self._plugins)
        done: dict[int, Ran] = {}
        for number, made in programs.items():
            if made.grad and not backend.gradients:
                done[number] = _refused("this backend computes no gradients")
            elif made.by_memory and not backend.mutates:
                done[number] = _refused(
                    "this backend is given copies, where what is written to memory means another thing"
                )
        waiting = {
            number: BatchJob(
                number,
                made.program,
                made.tensors,
                made.grad,
                seed=0,
                company=_company(made),
                options=backend.told(target.also(made.options).told) if made.options else {},
            )
            for number, made in programs.items()
            if number not in done
        }
        while waiting:
            folder = self._new_folder()
            request = RunManyRequest(
                target.backend, backend.told(target.told), tuple(waiting.values()), folder, self._plugins
            )
            fresh = any(programs[number].authored for number in waiting)
            limit = self._timeout * max(1, backend.together / 4)
            report = self._pool.run(worker, RUN_MANY, request, timeout=limit, fresh=fresh)
            results, unfinished = _read_results(folder)
            done |= {number: ran for number, ran in results.items() if number in waiting}
            if report.answer is None:
                _take_casualty(report.stage, _ended_worker(report), unfinished, waiting, done, backend.together)
            waiting = {number: job for number, job in waiting.items() if number not in done}
            if report.answer is not None and waiting:
                done |= dict.fromkeys(waiting, _NOT_RUN)
                break
        return done

    def _judge(
        self, programs: Mapping[int, PreparedProgram], ran: Mapping[int, Ran], target: Target
    ) -> dict[int, ProgramVerdict]:
        if not ran:
            return {}
        backend = BACKENDS.get(target.backend)
        items = [_to_judge(programs[number], ran[number].outputs) for number in ran]
        arithmetic = declared_arithmetic(backend, _with_options({number: programs[number] for number in ran}, target))
        request = JudgeRequest(
            tuple(items),
            backend.mutates,
            backend.renames_outputs,
            arithmetic,
            runs_on_gpu(target),
            self._explain,
            self._plugins,
        )
        report = self._ask(JUDGE_MANY, request, fresh=any(programs[number].authored for number in ran))
        if report.answer is not None:
            return dict(zip(ran, report.answer.verdicts, strict=True))
        if len(ran) == 1:
            reason = f"its judgement ended with {report.ending} ({report.detail})"
            took = report.seconds
            return {number: ProgramVerdict(SampleVerdict("inconclusive", reason), seconds=took) for number in ran}
        verdicts: dict[int, ProgramVerdict] = {}
        for number in ran:
            verdicts |= self._judge(programs, {number: ran[number]}, target)
        return verdicts

    def first_outputs(self, requests: Sequence[Asked], target: Target) -> list[Arrays | None]:
        """Return the compiler's outputs for the first sample of each program, in order, including inputs that it wrote
        to; None where it returns none."""
        made = dict(enumerate(self.prepared(requests, target)))
        runnable = {number: one for number, one in made.items() if isinstance(one, PreparedProgram)}
        ran = self._execute(runnable, target)
        done = {
            number: load_from(str(handed(one.outputs[0])))
            for number, one in ran.items()
            if one.outcome is Outcome.OK and one.outputs
        }
        return [done.get(number) for number in made]

    def first_results(self, requests: Sequence[Asked], target: Target) -> list[list[Array] | None]:
        """Return the compiler's results for the first sample of each program, without the inputs that were
        written to."""
        return [None if one is None else own_results(one) for one in self.first_outputs(requests, target)]

    def contradicts(self, made: PreparedProgram, outputs: Sequence[Arrays]) -> str:
        """Return why a program's reference would judge these outputs of a compiler as wrong, or an empty string."""
        with Shelf(self._new_folder() / TENSORS) as shelf:
            places = tuple(shelf.put(arrays) for arrays in outputs)
        request = JudgeRequest(
            (_to_judge(made, places),), mutates=False, renames=True, explain=False, plugins=self._plugins
        )
        report = self._ask(JUDGE_MANY, request, fresh=made.authored)
        if report.answer is None:
            return ""
        verdict = report.answer.verdicts[0].verdict
        return verdict.reason if verdict.judgement == "fail" else ""

    def _ask(self, task: Task[Request, Answer], request: Request, *, fresh: bool = False) -> TaskReport[Answer]:
        """Run a task in a worker of the framework. `fresh`: in a process that does nothing else, for programs that are
        not Driftline's own."""
        worker = worker_for_framework(self._form, self._plugins)  # forms go by the names of their frameworks
        return self._pool.run(worker, task, request, timeout=self._timeout, fresh=fresh)


WRITTEN_TO = "mutated:"  # prefix of the name of an input


def own_results(outputs: Arrays) -> list[Array]:
    """Return the results of a program, without the inputs that were written to."""
    return [array for name, array in outputs.items() if not name.startswith(WRITTEN_TO)]


def written_inputs(outputs: Arrays) -> Arrays:
    """Return the inputs that were written to, by name."""
    return {name.removeprefix(WRITTEN_TO): array for name, array in outputs.items() if name.startswith(WRITTEN_TO)}


def _with_options(programs: Mapping[int, PreparedProgram], target: Target) -> Target:
    """Return the target with the options of the first program; all need the same process (`_by_process`)."""
    return target.also(next(iter(programs.values())).options)


def _company(made: PreparedProgram) -> str:
    """Return a key of the programs that may be compiled together, which includes their options; empty for a program
    alone."""
    options = "".join(f":{key}={value}" for key, value in made.options)
    return made.company + options if made.company else ""


def _to_judge(made: PreparedProgram, outputs: tuple[str, ...]) -> JudgeItem:
    return JudgeItem(made.program, made.tensors, made.native, made.grad, outputs, made.each)


_NOT_RUN = Ran(Outcome.ERROR, Stage.RUN, problem="its process said that it was done, and left no result")


def _refused(reason: str) -> Ran:
    return Ran(Outcome.REJECTED, Stage.COMPILE, failure=Failure("Unsupported", reason))


def _read_results(folder: Path) -> tuple[dict[int, Ran], dict[int, list[str]]]:
    """Return the finished results, and for each unfinished program the places of its outputs so far."""
    results: dict[int, Ran] = {}
    unfinished: dict[int, list[str]] = {}
    path = folder / RESULTS
    for line in records_of(path, ResultLine):
        if line.ran:
            results[line.number] = line.ran
        else:
            unfinished.setdefault(line.number, []).append(line.finished)
    return results, unfinished


def _ended_worker(report: TaskReport[Answer]) -> Ran:
    known = known_stage(report.stage.partition(" ")[2])
    if report.spoilt:
        return Ran(Outcome.ERROR, known, problem=report.spoilt)
    return Ran(ENDED[report.ending], known, failure=Failure(report.detail, ""))


def _take_casualty(
    stage: str,
    ended: Ran,
    unfinished: Mapping[int, list[str]],
    waiting: dict[int, BatchJob],
    done: dict[int, Ran],
    together: int,
) -> None:
    """Find the program that ended the worker. Programs that were compiled together with it will be run one by one,
    perhaps with some of the next group, since the size of the group is not known."""
    number, _, entered = stage.partition(" ")
    known = {str(job.number): job for job in waiting.values()}
    if entered == TOGETHER:
        first = known.get(number) or next(iter(waiting.values()))
        group = [job for job in waiting.values() if job.company == first.company and job.number >= first.number]
        for job in group[:together]:
            waiting[job.number] = replace(job, company="")
        return
    culprit = known[number].number if number in known else next(iter(waiting))
    done[culprit] = replace(ended, outputs=tuple(unfinished.get(culprit, ())))


def _as_prepared(request: Asked, answer: Prepared) -> ScreenResult[Asked]:
    """Return the result of a request before its program runs; its judgement is empty if there is a program to run."""
    match answer:
        case NothingMade(reason, name):
            return ScreenResult(request, "nothing", reason, nothing=name)
        case InvalidProgram(reason, coverage, died, error, seconds):
            invalid = ScreenResult(request, "invalid", reason, died=died, internal_error=error)
            return replace(invalid, coverage=coverage, seconds={"make": seconds})
        case PreparedProgram():
            took = {"make": answer.seconds}
            return ScreenResult(request, "", made=answer, coverage=answer.coverage, seconds=took)


def _judged(result: ScreenResult[Asked], found: ProgramVerdict) -> ScreenResult[Asked]:
    """Return the result of a program that ran to its end."""
    verdict = found.verdict
    return replace(
        result,
        judgement=verdict.judgement,
        reason=verdict.reason,
        kind=verdict.kind,
        stage="RUN",
        z=verdict.z,
        sample=found.sample,
        evidence=verdict.evidence,
        each=found.each,
        internal_error=found.internal_error,
        seconds={**result.seconds, "judge": found.seconds},
    )


def _ended(result: ScreenResult[Asked], made: PreparedProgram, ran: Ran) -> ScreenResult[Asked]:
    """Return the result of a program that was rejected or ended with an error."""
    if ran.problem:
        return replace(result, judgement="inconclusive", reason=ran.problem, internal_error=ran.internal_error)
    sample = min(len(ran.outputs), len(made.origins) - 1)  # the sample after the finished ones
    if ran.outcome is Outcome.REJECTED:
        return replace(result, judgement="rejected", reason=str(ran.failure or "not supported"), sample=sample)
    verdict = ended(_KINDS[ran.outcome], str(ran.stage), ran.failure)
    return replace(
        result,
        judgement="fail",
        kind=str(verdict.kind),
        stage=str(ran.stage),
        reason=str(ran.failure or ran.outcome),
        sample=sample,
        evidence=replace(verdict.evidence, sample=sample),
    )
