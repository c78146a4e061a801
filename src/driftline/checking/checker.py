"""`Checker.check(case)`: reference, executions, verdicts, and a second look at every failure.

Nothing is reported on one sight: a failure is run again in a fresh process, and one that does not come back is called
flaky. When a program had to be converted, the converted file is first held against the reference itself, so that a
compiler is not blamed for what the converter did.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from driftline.backends import BACKENDS, resolve
from driftline.backends.base import Backend
from driftline.checking.accept import accepted_for, as_accepted
from driftline.checking.convert import Conversions
from driftline.checking.deployed import as_run, compared, fitting
from driftline.checking.kinds import HOME, worker_for_framework, worker_for_target
from driftline.checking.pace import cheap_first
from driftline.checking.room import jobs_for
from driftline.checking.witness import Witness, is_big, quality, witnesses
from driftline.core.case import Case, Deployed, Inputs
from driftline.core.errors import InternalError
from driftline.core.execution import Execution, Failure, Outcome, Stage
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.tensors import Arrays, load_tensors, save_tensors
from driftline.core.text import tail
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.execute.pool import Pool, Report, WorkerKind, WorkerStartError
from driftline.inputs.make import random_inputs
from driftline.oracle.choice import parse_oracle
from driftline.oracle.effect import Effect
from driftline.oracle.judge import AskArithmetic, NoShadow, Reference, ReferenceSample, Trait, judge
from driftline.oracle.rule import ShadowAnswer
from driftline.oracle.shadow.task import read_answer
from driftline.programs.convert import accepts_directly, find_converter

CONFIRMATIONS = 1
FLAKY_RUNS = 4
OUR_TIMEOUT = 120.0  # seconds, at least, for a reference or a shadow
FRESH_INPUTS = 3
KEPT_SHADOWS = 256 << 20  # bytes
# What a target may fail by because the reference is wrong: what its results are.
_OF_RESULTS = (
    Kind.WRONG_VALUE, Kind.WRONG_NONFINITE, Kind.BIAS, Kind.WRONG_ZERO_SIGN, Kind.WRONG_DTYPE, Kind.WRONG_SHAPE,
    Kind.WRONG_STRUCTURE,
)  # fmt: skip
SAME_SIZE = 16.0  # errors within this factor of each other may have the same cause


@dataclass(frozen=True)
class TargetResult:
    """One row of a check."""

    target: Target
    execution: Execution
    verdict: Verdict
    blame: str = ""  # the converter, when it is at fault
    failed_runs: tuple[int, int] = (0, 0)  # how often it failed, of how many runs
    internal_error: str = ""
    effect: Effect | None = None  # what it does to the highest scores, where there are any

    @property
    def flaky(self) -> bool:
        return 0 < self.failed_runs[0] < self.failed_runs[1]


@dataclass(frozen=True)
class Skipped:
    target: Target
    reason: str


@dataclass(frozen=True)
class CheckOutcome:
    """Everything a check found out."""

    case: Case
    reference: Reference
    results: tuple[TargetResult, ...]
    skipped: tuple[Skipped, ...] = field(default=())


Progress = Callable[[Target, TargetResult | Skipped | None], None]
Review = Callable[[Case, TargetResult, Reference], TargetResult]  # a last look at a row, with nothing run again


class Checker:
    """Runs cases on a pool of workers. Safe to use from several threads."""

    def __init__(self, pool: Pool, jobs: int = 2) -> None:
        self.pool = pool
        self._jobs = jobs
        self._conversions = Conversions(pool)
        self._shadows: dict[Any, ShadowAnswer] = {}
        self._keeping = threading.Lock()

    def check(
        self,
        case: Case,
        progress: Progress = lambda target, result: None,
        known_reference: Reference | None = None,
        review: Review = lambda case, result, reference: result,
    ) -> CheckOutcome:
        """Run the case on all its targets."""
        reference = known_reference or self.reference(case)

        def one(target: Target) -> TargetResult | Skipped:
            progress(target, None)
            result = self._check_target(case, target, reference)
            if isinstance(result, TargetResult):
                result = review(case, result, reference)
            progress(target, result)
            return result

        jobs = jobs_for(case.program, self._jobs)
        with ThreadPoolExecutor(max_workers=max(1, min(jobs, len(case.targets)))) as threads:
            begun = {target: threads.submit(one, target) for target in cheap_first(case.targets, case.program)}
            running = [begun[target] for target in case.targets]
            try:
                done = [job.result() for job in running]
            except BaseException as error:
                threads.shutdown(wait=False, cancel_futures=True)
                # Leaving the block waits for what runs. Interrupted, end what each has in hand, and what comes next.
                while isinstance(error, KeyboardInterrupt) and wait(running, timeout=0.0).not_done:
                    self.pool.interrupt()
                    wait(running, timeout=0.1)
                raise
        results = tuple(r for r in done if isinstance(r, TargetResult))
        return CheckOutcome(case, reference, results, tuple(r for r in done if isinstance(r, Skipped)))

    # -- one target --------------------------------------------------------------------------------------------------

    def _check_target(self, case: Case, target: Target, reference: Reference) -> TargetResult | Skipped:
        try:
            execution = self.execute(case, target)
            if case.deployed:
                execution, _ = compared(case.deployed, execution, reference)
            verdict = self.judge(case, target, execution, reference)
            if verdict.judgement is not Judgement.FAIL:
                return TargetResult(target, execution, verdict)
            if verdict.kind is Kind.BIAS and case.program.inputs and not self._drifts_elsewhere(case, target):
                told = "on these inputs the errors drift, on fresh ones they do not: chance cannot be ruled out"
                return TargetResult(target, execution, Verdict(Judgement.INCONCLUSIVE, told))
            if doubt := self._disputed(case, target, execution, reference, verdict):
                return TargetResult(target, execution, doubt)
            failed, runs = self._confirm(case, target, reference, verdict)
            blame = self._blame(case, target, execution, reference, verdict) if failed else ""
            return TargetResult(target, execution, verdict, blame, (failed, runs))
        except WorkerStartError as error:
            return Skipped(target, f"cannot start: {error}")
        except InternalError as error:
            verdict = Verdict(Judgement.INCONCLUSIVE, "Driftline itself failed; this says nothing about the compiler")
            execution = Execution(str(target), Outcome.ERROR, Stage.RUN, problem="internal error")
            return TargetResult(target, execution, verdict, internal_error=str(error))

    def judge(self, case: Case, target: Target, execution: Execution, reference: Reference) -> Verdict:
        """Is what a target did what the program means? Arithmetic that the person accepts counts only where the target
        would fail without it, so that the verdict says which targets need it."""
        execution, reference = self.sides(case, execution, reference)
        trait = self.trait(case, target, execution)
        verdict = judge(execution, reference, trait)
        accepted = accepted_for(case.options.accept, target)
        return as_accepted(verdict, execution, reference, trait, accepted) if accepted else verdict

    def sides(self, case: Case, execution: Execution, reference: Reference) -> tuple[Execution, Reference]:
        """What is held against each other: of a deployed file, its outputs under the names of the original's."""
        return compared(case.deployed, execution, reference) if case.deployed else (execution, reference)

    def trait(self, case: Case, target: Target, execution: Execution) -> Trait:
        backend = BACKENDS.get(target.backend)
        return Trait(
            calls_user_code=backend.mutates,
            positional=bool(execution.converter) or backend.renames_outputs,
            signed_zero=case.options.signed_zero,
            arithmetic=declared_arithmetic(backend, target),
            tolerance=parse_oracle(case.options.oracle),
        )

    def _confirm(self, case: Case, target: Target, reference: Reference, first: Verdict) -> tuple[int, int]:
        """Run again in fresh processes: how often does it fail in the same way, of how many runs?"""
        failed, runs = 1, 1
        if first.kind is Kind.BIAS and case.program.inputs:
            return 2, 2  # it was seen on fresh inputs already
        for _ in range(CONFIRMATIONS):
            failed += self._fails_again(case, target, reference, first)
            runs += 1
        while failed < runs < FLAKY_RUNS:
            failed += self._fails_again(case, target, reference, first)
            runs += 1
        return failed, runs

    def _drifts_elsewhere(self, case: Case, target: Target) -> bool:
        """A drift is a matter of statistics: it has to show on fresh inputs too, all of them together."""
        like = case.samples[0].arrays
        seeds = range(case.options.seed + 1, case.options.seed + 1 + FRESH_INPUTS)
        made = tuple(random_inputs(case.program.inputs, like, seed) for seed in seeds)
        fresh = replace(case, samples=fitting(case.deployed, made) if case.deployed else made)
        verdict = self.judge(case, target, self.execute(fresh, target, fresh=True), self.reference(fresh))
        return verdict.judgement is Judgement.FAIL

    def _disputed(
        self, case: Case, target: Target, execution: Execution, reference: Reference, verdict: Verdict
    ) -> Verdict | None:
        """A failure that rests on one of two references that disagree, and by the other one the target is right. A big
        model is too much for the evaluator's float64 runs: there it is enough that they disagree as widely as the
        target fails."""
        others = [witness for witness in witnesses(case) if witness.words != reference.by]
        if verdict.kind not in _OF_RESULTS or not others:
            return None
        big = is_big(case)
        other = self._testimony(case, others[0], exact=not big)
        if other.problem or any(sample.failure for sample in other.samples):
            return None
        means = replace(execution, outputs=tuple(sample.native for sample in other.samples), converter="")
        between = self.judge(case, target, means, reference)
        if between.judgement is not Judgement.FAIL or (big and _size(between) * SAME_SIZE < _size(verdict)):
            return None
        if not big and self.judge(case, target, execution, other).judgement is not Judgement.PASS:
            return None
        told = f"{reference.by} and {other.by} disagree about this program"
        told += "" if big else ", and the target agrees with the latter"
        return Verdict(Judgement.INCONCLUSIVE, told, evidence={"disputed": verdict.reason})

    def _fails_again(self, case: Case, target: Target, reference: Reference, first: Verdict) -> bool:
        execution = self.execute(case, target, fresh=True)
        again = self.judge(case, target, execution, reference)
        return again.judgement is Judgement.FAIL and again.kind is first.kind

    def _blame(self, case: Case, target: Target, execution: Execution, reference: Reference, first: Verdict) -> str:
        """The converter's name, when the ONNX reference evaluator on the converted file is wrong in the same way; the
        name of a deployed file, when what that file means is wrong in the same way."""
        if case.deployed and self._is_wrong_itself(case, case.deployed, reference, first):
            return case.deployed.program.name
        if not execution.converter or execution.stage is Stage.CONVERT:
            return ""
        outside = Target("onnx-reference")
        if target.backend == outside.backend or not BACKENDS.get(outside.backend).installed().available:
            return ""
        witness = self.execute(case, outside)
        if witness.outcome is not Outcome.OK or witness.converter != execution.converter:
            return ""  # no outside evaluator for what this converter makes
        verdict = self.judge(case, outside, witness, reference)
        # A small flaw of the converter does not excuse a compiler that is much further off.
        explained = _size(verdict) * SAME_SIZE >= _size(first)
        return execution.converter if verdict.kind is first.kind and explained else ""

    def _is_wrong_itself(self, case: Case, deployed: Deployed, reference: Reference, first: Verdict) -> bool:
        own = self.reference(as_run(case, deployed))
        if own.problem or any(sample.failure for sample in own.samples):
            return False
        home = Target(HOME[deployed.program.framework])
        means = Execution(str(home), Outcome.OK, Stage.RUN, outputs=tuple(sample.native for sample in own.samples))
        verdict = self.judge(case, home, means, reference)
        return verdict.kind is first.kind and _size(verdict) * SAME_SIZE >= _size(first)

    # -- running -----------------------------------------------------------------------------------------------------

    def execute(self, case: Case, target: Target, *, fresh: bool = False) -> Execution:
        """One target, all samples: convert if needed, compile, run."""
        if case.deployed:
            case = as_run(case, case.deployed)
        backend = resolve(target)
        program, converter, seconds = case.program, "", 0.0
        if case.options.grad and not backend.gradients:
            return _rejected(target, Stage.COMPILE, "this backend computes no gradients")
        if not accepts_directly(program.form, program.framework, backend.accepts):
            link = find_converter(program.form, program.framework, backend.accepts)
            if link is None:
                taken = ", ".join(backend.accepts)
                return _rejected(target, Stage.CONVERT, f"takes {taken}, not {program.form}:{program.framework}")
            conversion = self._conversions.convert(case, link)
            converter, seconds = link.name, conversion.seconds
            if conversion.program is None:
                durations = {"convert": seconds}
                return Execution(
                    str(target),
                    conversion.outcome,
                    Stage.CONVERT,
                    failure=conversion.failure,
                    log=conversion.log,
                    durations=durations,
                    converter=converter,
                )
            program = conversion.program
        payload = {
            **self._payload(case, program),
            "backend": target.backend,
            "options": target.told,
        }
        worker = worker_for_target(backend, target, case.options.plugins)
        with self._running(worker, "driftline.execute.tasks:run", payload, case, fresh=fresh) as report:
            return _execution(target, report, converter, seconds)

    def forget(self, case: Case, target: Target) -> None:
        """Drop what was kept of a program that nobody asks for again."""
        program = case.runs
        link = find_converter(program.form, program.framework, resolve(target).accepts)
        if link:
            self._conversions.forget(as_run(case, case.deployed) if case.deployed else case, link)

    @contextlib.contextmanager
    def _running(
        self,
        worker: WorkerKind,
        task: str,
        payload: dict[str, Any],
        case: Case,
        *,
        fresh: bool = False,
        ours: bool = False,
    ) -> Iterator[Report]:
        """Run a task; its files are there inside the block, and gone after it. What is `ours`, and no target's, gets
        more time: a short --timeout is meant for compilers."""
        options = case.options
        try:
            yield self.pool.run(
                worker,
                task,
                payload,
                timeout=max(2 * options.timeout, OUR_TIMEOUT) if ours else options.timeout,
                memory_limit=options.memory_limit,
                fresh=fresh,
            )
        finally:
            shutil.rmtree(payload["folder"], ignore_errors=True)

    def _payload(self, case: Case, program: Program) -> dict[str, Any]:
        folder = self.pool.workspace.job_folder()
        paths = []
        for index, sample in enumerate(case.samples):
            path = folder / f"input{index}"
            save_tensors(path, sample.arrays)
            paths.append(str(path))
        return {
            "program": program.to_json(),
            "path": str(program.path),
            "inputs": paths,
            "folder": str(folder),
            "grad": case.options.grad,
            "seed": case.options.seed,
            "plugins": list(case.options.plugins),
        }

    def reference(self, case: Case) -> Reference:
        """What the program means, by the first witness that can say all of it, or else by the one that says most."""
        best: Reference | None = None
        for witness in witnesses(case):
            found = self._testimony(case, witness)
            if quality(found) == 0:
                return found
            if best is None or quality(found) > quality(best):
                best = found
        assert best is not None
        return best

    def _testimony(self, case: Case, witness: Witness, *, exact: bool = True) -> Reference:
        """What the program means to one witness, computed in a worker of its framework; `exact`: in float64 too."""
        worker = worker_for_framework(witness.home, case.options.plugins)
        payload = {**self._payload(case, case.program), "witness": witness.name, "exact": exact}
        try:
            with self._running(worker, "driftline.oracle.reference:compute", payload, case, ours=True) as report:
                if report.ending != "done":
                    return Reference(problem=f"the reference run ended with {report.ending} ({report.detail})")
                if "problem" in report.result:
                    return Reference(problem=report.result["problem"])
                samples = tuple(
                    replace(
                        _reference_sample(value, partial(self._ask_shadow, case, witness, index)),
                        inputs=case.samples[index].arrays,
                    )
                    for index, value in enumerate(report.result["samples"])
                )
                return Reference(samples, report.result["random"], by=witness.words)
        except WorkerStartError as error:
            return Reference(problem=f"the reference cannot run: {error}")

    def _ask_shadow(
        self, case: Case, witness: Witness, index: int, arithmetic: str, runs: int, outputs: Arrays | None
    ) -> ShadowAnswer:
        """How far rounding may move the program's result on one sample. Answers that many targets share are kept."""
        key = (
            case.program.digest,
            case.program.state,
            case.options,
            witness,
            index,
            arithmetic,
            runs,
            _digest(case.samples[index]),
        )
        with self._keeping:
            if outputs is None and (known := self._shadows.get(key)):
                return known
        payload = {
            **self._payload(case, case.program),
            "witness": witness.name,
            "sample": index,
            "runs": runs,
            "arithmetic": arithmetic,
            "outputs": None,
        }
        if outputs is not None:
            payload["outputs"] = str(Path(payload["folder"]) / "outputs")
            save_tensors(payload["outputs"], outputs)
        worker = worker_for_framework(witness.home, case.options.plugins)
        with self._running(worker, "driftline.oracle.shadow.task:play", payload, case, ours=True) as report:
            if report.ending != "done":
                raise NoShadow(f"its run ended with {report.ending} ({report.detail})")
            if "problem" in report.result:
                raise NoShadow(report.result["problem"])
            answer = read_answer(report.result)
        if outputs is None:
            with self._keeping:
                self._shadows[key] = answer
                while len(self._shadows) > 1 and sum(a.nbytes for a in self._shadows.values()) > KEPT_SHADOWS:
                    self._shadows.pop(next(iter(self._shadows)))
        return answer


def _size(verdict: Verdict) -> float:
    """How far off: in sigmas, or over what was allowed; 1 where there is no measure (an error, a wrong shape)."""
    return float(verdict.evidence.get("z", verdict.evidence.get("ratio", 1.0)))


def _rejected(target: Target, stage: Stage, reason: str) -> Execution:
    return Execution(str(target), Outcome.REJECTED, stage, failure=Failure("Unsupported", reason))


def _execution(target: Target, report: Report, converter: str, convert_seconds: float) -> Execution:
    result = report.result
    durations = {"convert": convert_seconds} if converter else {}
    base = Execution(
        str(target),
        Outcome.OK,
        Stage(report.stage or Stage.COMPILE),
        log=tail(report.log),
        durations={**durations, "total": report.seconds},
        peak_memory=report.peak_memory,
        converter=converter,
    )
    if report.ending != "done":
        outcome = {"died": Outcome.CRASH, "timeout": Outcome.TIMEOUT, "memory": Outcome.OOM}[report.ending]
        version = target.version or BACKENDS.get(target.backend).version()  # the dead cannot be asked
        return replace(base, outcome=outcome, failure=Failure(report.detail, ""), version=version)
    return replace(
        base,
        outcome=Outcome(result["outcome"]),
        stage=Stage(result["stage"]),
        outputs=tuple(load_tensors(Path(path)) for path in result["outputs"]),
        failure=Failure.from_json(result["failure"]) if "failure" in result else None,
        durations={**durations, **result["durations"], "total": report.seconds},
        version=result["version"],
        problem=result.get("problem", ""),
    )


def _reference_sample(value: dict[str, Any], ask: AskArithmetic) -> ReferenceSample:
    if "failure" in value:
        return ReferenceSample(failure=Failure.from_json(value["failure"]))
    return ReferenceSample(
        native=load_tensors(value["native"]),
        exact=load_tensors(value["exact"]) if "exact" in value else None,
        spread=load_tensors(value["spread"]) if "spread" in value else {},
        note=value["note"],
        shadow=ask if value.get("shadow") else None,
    )


def _digest(sample: Inputs) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sample.arrays.items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def declared_arithmetic(backend: Backend, target: Target) -> str:
    names = (backend.arithmetic, dict(target.options).get("arithmetic", ""))
    return "+".join(name for name in names if name)
