"""`Checker.check(case)`: computes the reference, runs the targets, judges, and confirms every failure.

A failure is run again in a fresh process; one that does not occur again is called flaky. If a program had to be
converted, the converted file is compared with the reference first, so that a compiler is not blamed for a fault of the
converter.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from driftline.backends import BACKENDS, resolve
from driftline.backends.base import Backend
from driftline.checking.accept import accepted_for, as_accepted
from driftline.checking.aspects import FIRST_CALL, Aspect, Extent
from driftline.checking.convert import Conversions
from driftline.checking.deployed import as_run, compared, fitting
from driftline.checking.draws import DRAW, SeedsAnswer, SeedsRequest, draws_alone, judged_draws
from driftline.checking.gradients import GradientCase
from driftline.checking.kernels import in_place_of, same_failure
from driftline.checking.kinds import HOME, worker_for_framework, worker_for_target
from driftline.checking.pace import cheap_first
from driftline.checking.reference_sources import (
    EVALUATOR,
    PLAYER_ALONE,
    ReferenceSource,
    is_big,
    quality,
    reference_sources,
)
from driftline.checking.refusals import Refusals, plain_form
from driftline.checking.repeated import NO_FURTHER_INPUTS, FurtherInputs, RepeatedCalls, SeenIn
from driftline.checking.room import jobs_for
from driftline.checking.shadow_cache import ShadowCache
from driftline.checking.unwritten import as_unwritten, follows_memory
from driftline.checking.written import write_case
from driftline.core import compiler_caches, strangers
from driftline.core.case import Case, CheckOptions, Deployed, Inputs
from driftline.core.case_files import CaseFiles
from driftline.core.errors import DamagedFile, DriftlineError, InternalError, Interrupted, TooLarge
from driftline.core.evidence import Evidence
from driftline.core.execution import Execution, Failure, Outcome, Stage, known_stage
from driftline.core.full_disk import no_room
from driftline.core.handover import handed, remove_folder
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.task import Answer, Request, Task
from driftline.core.tensors import Arrays, in_bytes, load_tensors, save_tensors
from driftline.core.text import shortened, tail
from driftline.core.verdict import Judgement, Kind, Verdict
from driftline.execute.new_memory import OTHER, USUAL
from driftline.execute.pool import Pool, PoolExpired, TaskReport, WorkerKind, WorkerStartError
from driftline.execute.requests import EMPTY_CACHES, ENDED, RUN, EmptyCachesRequest, Ran, RunRequest
from driftline.execute.time_left import also_limited, time_limit, within
from driftline.inputs.room import room_for_results
from driftline.inputs.similar import similar_inputs
from driftline.oracle.arithmetic import declared, effective, with_subnormals_as_zero
from driftline.oracle.choice import parse_oracle
from driftline.oracle.effect import Effect
from driftline.oracle.judge import AskArithmetic, NoShadow, Reference, ReferenceSample, TargetTraits, judge
from driftline.oracle.reference import COMPUTE, ReferenceAnswer, ReferenceRequest, SampleFiles
from driftline.oracle.rule import ShadowAnswer
from driftline.oracle.shadow.task import PLAY, ShadowRequest
from driftline.oracle.time_out import needs_patience, patient, slow
from driftline.programs.convert import accepts_directly, find_converter
from driftline.programs.onnx.parameters import FIND_PARAMETERS, ParametersRequest
from driftline.programs.onnx.valid import FIND_FAULT, ValidityRequest

FLAKY_RUNS = 4
OUR_TIMEOUT = 40.0  # seconds, at least, for all references of a program together, or for a shadow
LEAST_WHOLE = 600.0  # seconds, at least, for a whole check
FRESH_INPUTS = 3
KEPT_USES = 1000
STRESS_THREADS = 4
# Kinds of failure that a wrong reference can cause: those about results.
_OF_RESULTS = (
    Kind.WRONG_VALUE, Kind.WRONG_NONFINITE, Kind.BIAS, Kind.WRONG_ZERO_SIGN, Kind.WRONG_DTYPE, Kind.WRONG_SHAPE,
    Kind.WRONG_STRUCTURE,
)  # fmt: skip
OF_KEPT_CODE = (Kind.ERROR, Kind.CRASH)  # kinds of failure that a damaged entry of a compiler's cache can cause
SAME_SIZE = 16.0  # errors within this factor of each other may have the same cause


@dataclass(frozen=True)
class TargetResult:
    """The result of a check for one target."""

    target: Target
    execution: Execution
    verdict: Verdict
    blame: str = ""  # the converter, or the backend whose kernels were called, if that is to blame
    failed_runs: tuple[int, int] = (0, 0)  # number of failed runs, number of runs
    internal_error: str = ""
    effect: Effect | None = None  # the effect on the highest scores, if the program returns scores
    seen_in: SeenIn | None = None  # the case that shows a failure of a further call or a gradient
    passing: Execution | None = None  # if `seen_in` is set: the execution of the original case
    culprit: TargetResult | None = None  # the result of the backend whose kernels are wrong in the same way
    compared: tuple[Aspect, ...] = ()

    def __repr__(self) -> str:
        return f"<TargetResult {self.target}: {repr(self.verdict)[1:-1].removeprefix('Verdict ')}>"

    @property
    def first_execution(self) -> Execution:
        """The execution of the original case, whose samples are those of the check."""
        return self.passing or self.execution

    @property
    def flaky(self) -> bool:
        return 0 < self.failed_runs[0] < self.failed_runs[1]


@dataclass(frozen=True)
class TakenForm:
    """A program in the form that a target accepts. `seconds`: the time of the conversion; 0 if it was cached."""

    program: Program
    converter: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Skipped:
    target: Target
    reason: str


@dataclass(frozen=True)
class CheckOutcome:
    """The reference of a check and the results of its targets."""

    case: Case
    reference: Reference
    results: tuple[TargetResult, ...]
    skipped: tuple[Skipped, ...] = field(default=())
    other_size: str = ""  # how inputs of another size differ from the first ones, if there were any

    def __repr__(self) -> str:
        rows = [f"{row.target} {row.verdict.judgement}" for row in self.results]
        rows += [f"{row.target} skipped" for row in self.skipped]
        return f"<CheckOutcome {self.case.runs.name}: {shortened(rows, '; ')}>"


Progress = Callable[[Target, TargetResult | Skipped | None], None]
Review = Callable[[Case, TargetResult, Reference], TargetResult]  # reviews a row without running anything


class Checker:
    """Runs cases on a pool of workers. Safe to use from several threads."""

    def __init__(self, pool: Pool, jobs: int = 2) -> None:
        self.pool = pool
        self.jobs = jobs
        self._conversions = Conversions(pool)
        self._refusals = Refusals()
        self._shadows = ShadowCache()
        self._uses: dict[Any, tuple[str, ...]] = {}  # arithmetic of programs, by program, source and sample
        self._keeping = threading.Lock()

    def check(
        self,
        case: Case,
        progress: Progress = lambda target, result: None,
        known_reference: Reference | None = None,
        review: Review = lambda case, result, reference: result,
        *,
        extent: Extent = FIRST_CALL,
    ) -> CheckOutcome:
        """Run the case on all its targets. `extent`: the further comparisons for targets that pass."""
        with within(whole_time(case.options, len(case.targets))):
            return self._check(case, progress, known_reference or self.reference(case), review, extent)

    def _check(
        self, case: Case, progress: Progress, reference: Reference, review: Review, extent: Extent
    ) -> CheckOutcome:
        if reference.spent:
            return _without_reference(case, reference, progress)
        repeats = RepeatedCalls(self, case, reference, extent.calls)
        gradients = GradientCase(self, case, extent.calls) if extent.gradient else None

        def one(target: Target) -> TargetResult | Skipped:
            progress(target, None)
            result = self._check_target(case, target, reference, repeats)
            if isinstance(result, TargetResult):
                result = self._with_gradient(gradients, result) if gradients else result
                seen = result.seen_in or SeenIn(case, reference)
                result = review(seen.case, result, seen.reference)
                if result.culprit:
                    result = replace(result, culprit=review(seen.case, result.culprit, seen.reference))
                result = _as_seen(case, result)
            progress(target, result)
            return result

        jobs = jobs_for(case.program, self.jobs)
        with ThreadPoolExecutor(max_workers=max(1, min(jobs, len(case.targets)))) as threads:
            begun = {
                target: threads.submit(also_limited(one), target) for target in cheap_first(case.targets, case.program)
            }
            running = [begun[target] for target in case.targets]
            try:
                done = [job.result() for job in running]
            except BaseException as error:
                threads.shutdown(wait=False, cancel_futures=True)
                # Leaving the block waits for running work. If interrupted, end the running work and begin no more.
                while isinstance(error, KeyboardInterrupt) and wait(running, timeout=0.0).not_done:
                    self.pool.interrupt()
                    wait(running, timeout=0.1)
                raise
        results = tuple(r for r in done if isinstance(r, TargetResult))
        skipped = tuple(r for r in done if isinstance(r, Skipped))
        return CheckOutcome(case, reference, results, skipped, repeats.other_size)

    # -- one target --------------------------------------------------------------------------------------------------

    def _check_target(
        self, case: Case, target: Target, reference: Reference, repeats: RepeatedCalls | None = None
    ) -> TargetResult | Skipped:
        try:
            execution = self.execute(case, target, repeats.inputs(target) if repeats else NO_FURTHER_INPUTS)
            if repeats and execution.outcome in (Outcome.CRASH, Outcome.TIMEOUT, Outcome.OOM):
                first = self.execute(case, target)
                crashed = first.outcome is Outcome.OK and execution.outcome is Outcome.CRASH
                execution = replace(first, repeat_failure=execution.failure) if crashed else first
            raw = execution
            if case.deployed:
                execution, _ = compared(case.deployed, execution, reference)
            verdict = self.judge(case, target, execution, reference)
            if reference.random and execution.outcome is Outcome.OK and draws_alone(target):
                verdict, failed_runs = judged_draws(self, case, target)
                return TargetResult(target, execution, verdict, failed_runs=failed_runs)
            if verdict.judgement is not Judgement.FAIL:
                passed = TargetResult(target, execution, verdict)
                if verdict.judgement is not Judgement.PASS:
                    return passed
                passed = replace(passed, compared=_first_call(case))
                return self._called_again(repeats, passed, raw) if repeats else passed
            return self._examined(case, target, execution, reference, verdict)
        except WorkerStartError as error:
            return Skipped(target, f"cannot start: {error}")
        except PoolExpired:
            if not time_limit().over:
                raise
            return _inconclusive(target, time_limit().words)
        except (DamagedFile, TooLarge) as error:
            return _inconclusive(target, strangers.useless(error))
        except (DriftlineError, Interrupted):
            raise
        except Exception as error:
            if no_room(error):
                raise
            return (
                _inconclusive(target, strangers.useless(error)) if strangers.admitted() else _own_fault(target, error)
            )

    def _examined(
        self, case: Case, target: Target, execution: Execution, reference: Reference, verdict: Verdict
    ) -> TargetResult:
        """Return the row of a failure: whether it is one, whether it shows again, and what is to blame."""
        if needs_patience(verdict, execution):
            longer = self.execute(replace(case, options=patient(case.options)), target)
            if longer.outcome is not Outcome.TIMEOUT:
                return TargetResult(target, execution, slow(longer, case.options.timeout))
            execution, verdict = longer, self.judge(case, target, longer, reference)
        if verdict.kind is Kind.BIAS and case.program.inputs and not self._drifts_elsewhere(case, target):
            told = "on these inputs the errors drift, on fresh ones they do not: chance cannot be ruled out"
            return TargetResult(target, execution, Verdict(Judgement.INCONCLUSIVE, told))
        if fault := self._fault_of_model(case.runs):
            return TargetResult(target, execution, Verdict(Judgement.INCONCLUSIVE, fault))
        if doubt := self._disputed(case, target, execution, reference, verdict):
            return TargetResult(target, execution, doubt)
        if vanished := self._without_kept_code(case, target, reference, verdict):
            return vanished
        verdict, failed, runs = self._confirm(case, target, execution, reference, verdict)
        if culprit := self._wrong_kernels(case, target, execution, reference, verdict):
            return TargetResult(target, execution, verdict, culprit.target.backend, (failed, runs), culprit=culprit)
        blame = self._blame(case, target, execution, reference, verdict) if failed else ""
        return TargetResult(target, execution, verdict, blame, (failed, runs))

    def _called_again(self, repeats: RepeatedCalls, passed: TargetResult, execution: Execution) -> TargetResult:
        """Return the row of a passing target with the results of its further calls. A failing call is examined like any
        other failure, in a case that has this call as a sample."""
        looked = repeats.look(passed.target, execution)
        for seen in looked.suspects:
            result = self._check_target(seen.case, passed.target, seen.reference)
            if isinstance(result, TargetResult) and result.verdict.judgement is Judgement.FAIL:
                compared = (*passed.compared, *looked.compared, seen.aspect)
                return replace(result, seen_in=seen, passing=passed.execution, compared=compared)
        return replace(passed, compared=(*passed.compared, *looked.compared))

    def _with_gradient(self, gradients: GradientCase, row: TargetResult) -> TargetResult:
        """Return the row of a passing target with its gradient judged too. A gradient that cannot be judged changes
        nothing."""
        found = gradients.of(row.target) if row.verdict.judgement is Judgement.PASS else None
        if not found:
            return row
        seen, repeats = found
        result = self._check_target(seen.case, row.target, seen.reference, repeats)
        if not isinstance(result, TargetResult) or result.internal_error:
            return row
        if result.verdict.judgement is Judgement.FAIL:
            inner = result.seen_in
            words = f"{seen.words}, {inner.words}" if inner else seen.words
            compared = tuple(dict.fromkeys((*row.compared, *_of_gradient(result.compared))))
            found_in = replace(inner or seen, words=words)
            return replace(result, seen_in=found_in, passing=row.execution, compared=compared)
        if result.verdict.judgement is not Judgement.PASS:
            return row
        execution = replace(row.execution, durations=_added(row.execution.durations, result.execution.durations))
        return replace(row, execution=execution, compared=(*row.compared, *_of_gradient(result.compared)))

    def judge(self, case: Case, target: Target, execution: Execution, reference: Reference) -> Verdict:
        """Compare an execution with the reference. The accepted arithmetic is applied only if the target would fail
        without it, so that the verdict tells which targets need it."""
        execution, reference = self.sides(case, execution, reference)
        trait = self.trait(case, target, execution)
        verdict = judge(execution, reference, trait)
        accepted = accepted_for(case.options.accept, target)
        return as_accepted(verdict, execution, reference, trait, accepted) if accepted else verdict

    def sides(self, case: Case, execution: Execution, reference: Reference) -> tuple[Execution, Reference]:
        """Return the execution and the reference to compare; for a deployed file, its outputs get the names of the
        original's."""
        return compared(case.deployed, execution, reference) if case.deployed else (execution, reference)

    def trait(self, case: Case, target: Target, execution: Execution) -> TargetTraits:
        """Return the properties of a target that the oracle needs for its verdict."""
        backend = BACKENDS.get(target.backend)
        return TargetTraits(
            calls_user_code=backend.mutates,
            draws_alone=backend.draws_alone(dict(target.options)),
            own_framework=not execution.converter and case.program.framework in ("tensorflow", "jax"),
            positional=bool(execution.converter) or backend.renames_outputs,
            signed_zero=case.options.signed_zero,
            arithmetic=declared_arithmetic(backend, target),
            tolerance=parse_oracle(case.options.oracle),
        )

    def _confirm(
        self, case: Case, target: Target, execution: Execution, reference: Reference, first: Verdict
    ) -> tuple[Verdict, int, int]:
        """Run a failure again in fresh processes; return the verdict, the number of equal failures and the number of
        runs. In the second run new memory holds another byte; if that changes the result, a third run uses the first
        byte again."""
        failed, runs = 1, 1
        if first.kind is Kind.BIAS and case.program.inputs:
            return first, 2, 2  # it was already seen on fresh inputs
        other = self.execute(case, target, fresh=True, fill=OTHER)
        if follows_memory(first, reference, [execution], other):
            again = self.execute(case, target, fresh=True)
            if follows_memory(first, reference, [execution, again], other):
                return as_unwritten(first), 3, 3
        failed, runs = 1 + self._fails_alike(case, target, other, reference, first), 2
        while failed < runs < FLAKY_RUNS:
            failed += self._fails_again(case, target, reference, first)
            runs += 1
        return first, failed, runs

    def _drifts_elsewhere(self, case: Case, target: Target) -> bool:
        """True if a bias also shows on fresh inputs, all taken together, since a bias is a statistical finding."""
        like = case.samples[0].arrays
        seeds = range(case.options.seed + 1, case.options.seed + 1 + FRESH_INPUTS)
        made = tuple(similar_inputs(case.program.inputs, like, seed) for seed in seeds)
        fresh = replace(case, samples=fitting(case.deployed, made) if case.deployed else made)
        verdict = self.judge(case, target, self.execute(fresh, target, fresh=True), self.reference(fresh))
        return verdict.judgement is Judgement.FAIL

    def _fault_of_model(self, program: Program) -> str:
        """Return why an ONNX model is not valid at its opset, or an empty string. No compiler is blamed for an invalid
        model."""
        if program.form != "onnx":
            return ""
        with contextlib.suppress(WorkerStartError):  # validity cannot be tested
            return self.pool.ask(
                worker_for_framework("onnx"), FIND_FAULT, ValidityRequest(program.path.resolve())
            ).fault
        return ""

    def _disputed(
        self, case: Case, target: Target, execution: Execution, reference: Reference, verdict: Verdict
    ) -> Verdict | None:
        """Return an inconclusive verdict if two references disagree and the target is right by the other one, else
        None. For a big model, whose float64 runs are too slow in the evaluator, it is enough that the references differ
        as widely as the target fails."""
        others = [witness for witness in reference_sources(case) if witness.words != reference.by]
        if verdict.kind not in _OF_RESULTS or not others:
            return None
        big = is_big(case)
        other = self._testimony(case, others[0], exact=not big)
        if other.problem or any(sample.failure for sample in other.samples):
            return None
        means = replace(execution, outputs=tuple(sample.native for sample in other.samples), converter="")
        between = self.judge(case, target, means, reference)
        if between.judgement is not Judgement.FAIL or (
            big and between.evidence.size * SAME_SIZE < verdict.evidence.size
        ):
            return None
        if not big and self.judge(case, target, execution, other).judgement is not Judgement.PASS:
            return None
        told = f"{reference.by} and {other.by} disagree about this program"
        told += "" if big else ", and the target agrees with the latter"
        return Verdict(Judgement.INCONCLUSIVE, told, evidence=Evidence(disputed=verdict.reason))

    def references_agree(self, case: Case, result: TargetResult, reference: Reference) -> bool:
        """True if each of the two references of an ONNX program, by itself, agrees with the one that was used. Each is
        judged as if it were the target."""
        for witness in (EVALUATOR, PLAYER_ALONE):
            found = self._testimony(case, witness, exact=False)
            if found.problem or any(sample.failure for sample in found.samples):
                return False
            means = replace(
                result.execution,
                outcome=Outcome.OK,
                outputs=tuple(sample.native for sample in found.samples),
                converter="",
            )
            if self.judge(case, result.target, means, reference).judgement is not Judgement.PASS:
                return False
        return True

    def _without_kept_code(
        self, case: Case, target: Target, reference: Reference, first: Verdict
    ) -> TargetResult | None:
        """Return a passing row if the target fails each time with the code that its compiler keeps on disk and passes
        without, else None. The damaged entry is removed."""
        if first.kind not in OF_KEPT_CODE or not resolve(target).keeps_code:
            return None
        execution = self.execute(case, target, anew=True)
        verdict = self.judge(case, target, execution, reference)
        if verdict.judgement is not Judgement.PASS or not self._fails_again(case, target, reference, first):
            return None
        removed = self._empty_caches(case, target, damaged_alone=True)
        if not removed or self._fails_again(case, target, reference, first):
            self._empty_caches(case, target, damaged_alone=False)
        told = f"{verdict.reason}; an error vanished with an empty cache: a damaged cache entry was removed"
        return TargetResult(target, execution, replace(verdict, reason=told))

    def _empty_caches(self, case: Case, target: Target, *, damaged_alone: bool) -> int:
        """Delete code that compilers keep on disk; return the number of entries. A worker does this, since the parent
        never touches files that workers may replace."""
        lasting = [compiler_caches.lasting_caches()]
        removed = (compiler_caches.remove_damaged if damaged_alone else compiler_caches.remove_all)(lasting)
        worker = worker_for_target(resolve(target), target, case.options.plugins)
        answer = self.pool.run(worker, EMPTY_CACHES, EmptyCachesRequest(damaged_alone)).answer
        return removed + (answer.removed if answer else 0)

    def _wrong_kernels(
        self, case: Case, target: Target, execution: Execution, reference: Reference, first: Verdict
    ) -> TargetResult | None:
        """Return the row of the backend whose kernels a target calls, if these are wrong in the same way, else None."""
        name = resolve(target).kernels
        if not name or name == target.backend or execution.stage is not Stage.RUN or case.deployed:
            return None
        options = tuple((key, value) for key, value in target.options if key == "device")
        row = self._check_target(case, Target(name, target.version, options), reference)
        if not isinstance(row, TargetResult) or not same_failure(first, execution, row.verdict, row.execution):
            return None
        apart = execution.outcome is Outcome.OK and self.judge(
            case, target, execution, in_place_of(reference, row.execution)
        )
        return None if apart and apart.judgement is Judgement.FAIL else row

    def _fails_again(self, case: Case, target: Target, reference: Reference, first: Verdict) -> bool:
        return self._fails_alike(case, target, self.execute(case, target, fresh=True), reference, first)

    def _fails_alike(
        self, case: Case, target: Target, execution: Execution, reference: Reference, first: Verdict
    ) -> bool:
        again = self.judge(case, target, execution, reference)
        return again.judgement is Judgement.FAIL and again.kind is first.kind

    def _blame(self, case: Case, target: Target, execution: Execution, reference: Reference, first: Verdict) -> str:
        """Return the converter's name if the ONNX reference evaluator gives the same wrong result on the converted
        file, the name of a deployed file if its own meaning is wrong in the same way, or an empty string."""
        if case.deployed and self._is_wrong_itself(case, case.deployed, reference, first):
            return case.deployed.program.name
        if not execution.converter or execution.stage is Stage.CONVERT:
            return ""
        form = self.form_for(case, target) if first.kind is Kind.ERROR else None
        if isinstance(form, TakenForm) and self._fault_of_model(form.program):
            return execution.converter  # the target is right to refuse it
        outside = Target("onnx-reference")
        if target.backend == outside.backend or not BACKENDS.get(outside.backend).installed().available:
            return ""
        witness = self.execute(case, outside)
        if witness.outcome is not Outcome.OK or witness.converter != execution.converter:
            return ""  # no other evaluator for the output of this converter
        verdict = self.judge(case, outside, witness, reference)
        return execution.converter if _explains(verdict, first) else ""

    def _is_wrong_itself(self, case: Case, deployed: Deployed, reference: Reference, first: Verdict) -> bool:
        own = self.reference(as_run(case, deployed))
        if own.problem or any(sample.failure for sample in own.samples):
            return False
        home = Target(HOME[deployed.program.framework])
        means = Execution(str(home), Outcome.OK, Stage.RUN, outputs=tuple(sample.native for sample in own.samples))
        verdict = self.judge(case, home, means, reference)
        return _explains(verdict, first)

    # -- running -----------------------------------------------------------------------------------------------------

    def execute(
        self,
        case: Case,
        target: Target,
        repeats: FurtherInputs = NO_FURTHER_INPUTS,
        *,
        fresh: bool = False,
        anew: bool = False,
        fill: int = USUAL,
    ) -> Execution:
        """Run all samples on one target: convert if needed, compile, run, then make further calls with `repeats`. A
        rejection by message is believed only if the compiler's plainest form rejects the program too. `fresh`: in a
        process that has run nothing else; `anew`: also without code that the compiler keeps on disk; `fill`: the byte
        in all new memory while the program runs."""
        if case.deployed:
            same_size = as_run(replace(case, samples=repeats.same_size), case.deployed).samples
            repeats = FurtherInputs(same_size)
            case = as_run(case, case.deployed)
        execution = self._execute(case, target, repeats, fresh=fresh or anew, anew=anew, fill=fill)
        by_converter = execution.converter and execution.stage is Stage.CONVERT
        if execution.outcome is not Outcome.REJECTED or by_converter:
            return execution
        plain = plain_form(target, execution.failure)
        if plain and self._refusals.takes(case, plain, lambda: self._execute(case, plain).outcome is Outcome.OK):
            return replace(execution, outcome=Outcome.ERROR, taken_by=str(plain))
        return execution

    def _execute(
        self,
        case: Case,
        target: Target,
        repeats: FurtherInputs = NO_FURTHER_INPUTS,
        *,
        fresh: bool = False,
        anew: bool = False,
        fill: int = USUAL,
    ) -> Execution:
        backend = resolve(target)
        if case.options.grad and not backend.gradients:
            return _rejected(target, Stage.COMPILE, "this backend computes no gradients")
        form = self.form_for(case, target)
        if isinstance(form, Execution):
            return form
        program, converter, seconds = form.program, form.converter, form.seconds
        captured = ""
        if not fresh:  # a confirmation must not rest on the shared file
            captured = self._conversions.shared_capture(case, target)
        worker = worker_for_target(backend, target, case.options.plugins)
        with self._written(case, program) as files:
            further = tuple(files.folder / f"repeat{index}" for index in range(len(repeats.same_size)))
            for path, sample in zip(further, repeats.same_size, strict=True):
                save_tensors(path, sample.arrays)
            resized = files.folder / "resized" if repeats.resized else None
            if resized and repeats.resized:
                save_tensors(resized, repeats.resized.arrays)
            threads = STRESS_THREADS if case.options.stress else 1
            told = backend.told(target.told)
            request = RunRequest(files, target.backend, told, captured, further, resized, threads, anew, fill)
            report = self._run(worker, RUN, request, case, fresh=fresh)
            if report.answer and report.answer.internal_error and not strangers.admitted():
                raise InternalError(f"{target}: {report.answer.internal_error}")
            return _execution(target, report, converter, seconds, room_for_results(case.options.memory_limit))

    def form_for(self, case: Case, target: Target) -> TakenForm | Execution:
        """Return the program in the form that the target accepts, converted if needed, or the failed conversion."""
        backend, program = resolve(target), case.program
        if accepts_directly(program.form, program.framework, backend.accepts):
            return TakenForm(program)
        link = find_converter(program.form, program.framework, backend.accepts)
        if link is None:
            taken = ", ".join(backend.accepts)
            return _rejected(target, Stage.CONVERT, f"takes {taken}, not {program.form}:{program.framework}")
        conversion = self._conversions.convert(case, link)
        if conversion.program is not None:
            return TakenForm(conversion.program, link.name, conversion.seconds)
        return Execution(
            str(target),
            conversion.outcome,
            Stage.CONVERT,
            failure=conversion.failure,
            log=conversion.log,
            durations={"convert": conversion.seconds},
            converter=link.name,
            problem=conversion.problem,
        )

    def forget(self, case: Case, target: Target) -> None:
        """Delete the conversion of a program that will not be used again."""
        program = case.runs
        link = find_converter(program.form, program.framework, resolve(target).accepts)
        if link:
            self._conversions.forget(as_run(case, case.deployed) if case.deployed else case, link)

    def _run(
        self,
        worker: WorkerKind,
        task: Task[Request, Answer],
        request: Request,
        case: Case,
        *,
        fresh: bool = False,
        seconds: float = 0.0,
    ) -> TaskReport[Answer]:
        """Run a task for at most `seconds`; 0 stands for the time-out of a target."""
        options = case.options
        return self.pool.run(
            worker,
            task,
            request,
            timeout=seconds or options.timeout,
            memory_limit=options.memory_limit,
            fresh=fresh,
        )

    def drawn(self, case: Case, target: Target, first_seed: int) -> SeedsAnswer:
        """Return the random numbers of eager and of a target for many seeds."""
        worker = worker_for_target(resolve(target), target, case.options.plugins)
        with self._written(case, case.program) as files:
            request = SeedsRequest(files, target, first_seed)
            report = self._run(worker, DRAW, request, case, fresh=True, seconds=own_time(case.options))
        return report.answer or SeedsAnswer(problem=f"the calls ended with {report.ending} ({report.detail})")

    @contextlib.contextmanager
    def _written(self, case: Case, program: Program) -> Iterator[CaseFiles]:
        """Write the case to files for a worker; the files, and those that the worker adds, are deleted after the
        block."""
        files = write_case(self.pool.workspace, case, program)
        try:
            yield files
        finally:
            remove_folder(files.folder)

    def reference(self, case: Case) -> Reference:
        """Return the reference from the first source that gives complete results, or else from the source that gives
        most. All sources share one limit of time; each but the last may use half of what is left."""
        best: Reference | None = None
        ends = time.monotonic() + own_time(case.options)
        witnesses = reference_sources(case)
        for witness in witnesses:
            left = max(1.0, ends - time.monotonic())
            found = self._testimony(case, witness, left if witness is witnesses[-1] else left / 2)
            if quality(found) == 0:
                return found
            if best is None or quality(found) > quality(best):
                best = found
        assert best is not None
        return best

    def parameters(self, case: Case) -> Collection[str]:
        """Return the names of the inputs that are parameters of operators, such as shapes and scales; known for ONNX
        models only. If they cannot be found, all inputs are returned."""
        if case.program.framework != "onnx":
            return ()
        worker = worker_for_framework("onnx", case.options.plugins)
        try:
            report = self._run(
                worker,
                FIND_PARAMETERS,
                ParametersRequest(case.program.path.resolve()),
                case,
                seconds=own_time(case.options),
            )
        except WorkerStartError:  # the targets may run nevertheless
            return tuple(case.samples[0].arrays)
        except PoolExpired:
            if not time_limit().over:
                raise
            return tuple(case.samples[0].arrays)
        return report.answer.names if report.answer else tuple(case.samples[0].arrays)

    def _testimony(
        self, case: Case, witness: ReferenceSource, seconds: float = 0.0, *, exact: bool = True
    ) -> Reference:
        """Return the reference of one source, computed in a worker of its framework; `exact`: in float64 too.
        `seconds`: how long that may take; 0 is the limit for all sources."""
        worker = worker_for_framework(witness.home, case.options.plugins)
        room = room_for_results(case.options.memory_limit)
        try:
            with self._written(case, case.program) as files:
                request = ReferenceRequest(files, witness.name, exact, _storages(case))
                report = self._run(worker, COMPUTE, request, case, seconds=seconds or own_time(case.options))
                answer = report.answer
                if answer is None:
                    return _ended(report, case.options, seconds or own_time(case.options))
                if answer.problem:
                    return Reference(problem=answer.problem)
                samples = tuple(
                    replace(
                        _reference_sample(found, partial(self._ask_shadow, case, witness, index), room),
                        inputs=case.samples[index].arrays,
                        flushed=cache(partial(self._flushed, case, witness, index)),
                    )
                    for index, found in enumerate(answer.samples)
                )
                return Reference(samples, answer.random, by=witness.words)
        except WorkerStartError as error:
            return Reference(problem=f"the reference cannot run: {error}")
        except TooLarge as error:
            return Reference(problem=_too_large(error))
        except PoolExpired:
            if not time_limit().over:
                raise
            return Reference(problem=time_limit().words, spent=True)
        except (DriftlineError, Interrupted):
            raise
        except Exception as error:
            if not strangers.admitted() or no_room(error):
                raise
            return Reference(problem=strangers.useless(error))

    def _flushed(self, case: Case, witness: ReferenceSource, index: int) -> ReferenceSample | None:
        """Return the reference on a sample with subnormal inputs replaced by zero, or None."""
        sample = case.samples[index]
        zeros = replace(sample, arrays=with_subnormals_as_zero(sample.arrays))
        found = self._testimony(replace(case, samples=(zeros,)), witness)
        return found.samples[0] if found.samples else None

    def _ask_shadow(
        self, case: Case, witness: ReferenceSource, index: int, arithmetic: str, runs: int, outputs: Arrays | None
    ) -> ShadowAnswer:
        """Return how far rounding may move the program's result on one sample. Answers that several targets share are
        cached."""
        program = case.program
        place = (program.digest, program.state, case.options, witness, index, _digest(case.samples[index]))
        with self._keeping:
            if place in self._uses:  # targets whose declared arithmetic makes no difference here share an answer
                arithmetic = effective(arithmetic, self._uses[place])
            if outputs is None and (known := self._shadows.get((place, arithmetic, runs))):
                return known
        worker = worker_for_framework(witness.home, case.options.plugins)
        with self._written(case, case.program) as files:
            written = None
            if outputs is not None:
                written = files.folder / "outputs"
                save_tensors(written, outputs)
            request = ShadowRequest(files, witness.name, index, runs, arithmetic, written)
            report = self._run(worker, PLAY, request, case, seconds=own_time(case.options))
            if report.answer is None:
                raise NoShadow(f"its run ended with {report.ending} ({report.detail})")
            if report.answer.found is None:
                raise NoShadow(report.answer.problem)
            room = room_for_results(case.options.memory_limit)
            try:
                answer = report.answer.found.require_handed().read(2 * room)
            except (DamagedFile, TooLarge, OSError) as error:
                raise NoShadow(f"its results cannot be read: {error}") from error
        if outputs is None:
            with self._keeping:
                if len(self._uses) >= KEPT_USES:
                    self._uses.clear()
                self._uses[place] = answer.uses
                self._shadows.keep((place, effective(arithmetic, answer.uses), runs), answer)
        return answer


def _ended(report: TaskReport[ReferenceAnswer], options: CheckOptions, seconds: float) -> Reference:
    """Return the reference of a program whose reference run did not come to its end."""
    spent = {
        "timeout": f"the program's own run did not end within {seconds:.3g} s; raise --timeout",
        "memory": f"the program's own run takes more than {in_bytes(options.memory_limit)}; raise --memory",
    }
    told = spent.get(report.ending, f"the reference run ended with {report.ending} ({report.detail})")
    return Reference(problem=told, spent=report.ending in spent)


def own_time(options: CheckOptions) -> float:
    """Return the seconds for what Driftline computes itself: a short --timeout is meant for compilers."""
    return max(2 * options.timeout, OUR_TIMEOUT)


def whole_time(options: CheckOptions, targets: int) -> float:
    """Return the seconds for a whole check, however many runs it makes: the time of the references for each target, and
    twice more."""
    return max(LEAST_WHOLE, own_time(options) * (targets + 2))


def _without_reference(case: Case, reference: Reference, progress: Progress) -> CheckOutcome:
    """Return the outcome of a program that spends the limits of time or memory by itself. No target runs: nothing that
    it does could be judged, and a small file may name sizes that keep every target busy until its limit."""
    told = f"no reference: {reference.problem}"
    verdict = Verdict(Judgement.INCONCLUSIVE, told)
    rows = [
        TargetResult(target, Execution(str(target), Outcome.ERROR, Stage.RUN, problem=told), verdict)
        for target in case.targets
    ]
    for row in rows:
        progress(row.target, row)
    return CheckOutcome(case, reference, tuple(rows))


def _explains(other: Verdict, first: Verdict) -> bool:
    """True if the failure of a target's input or kernels explains that of the target: the same kind, in the same
    output, and not much smaller, since a small flaw does not excuse a compiler that is much further off."""
    same = other.kind is first.kind and other.evidence.output == first.evidence.output
    return same and other.evidence.size * SAME_SIZE >= first.evidence.size


def _of_gradient(compared: Collection[Aspect]) -> list[Aspect]:
    """Return the aspects that a run with gradients adds."""
    more = [Aspect.GRADIENT_OF_OTHER_VALUES] if Aspect.OTHER_VALUES in compared else []
    return [Aspect.GRADIENT, *more]


def _first_call(case: Case) -> tuple[Aspect, ...]:
    """Return the aspects that the first call compares."""
    return (Aspect.OUTPUTS, *([Aspect.GRADIENT] if case.options.grad else []))


def _as_seen(case: Case, row: TargetResult) -> TargetResult:
    """Return the row with the compared aspects, and with a reason that names the case in which it fails if that is not
    the original one."""
    judged = row.verdict.judgement in (Judgement.PASS, Judgement.FAIL, Judgement.REDUCED)
    if judged and not row.compared and row.execution.outcome is Outcome.OK:
        row = replace(row, compared=_first_call(case))
    if not row.seen_in or row.verdict.judgement not in (Judgement.FAIL, Judgement.REDUCED):
        return row
    told = f"{row.seen_in.words}: {row.verdict.reason}"
    return replace(row, verdict=replace(row.verdict, reason=told))


def _added(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds by stage of two runs together."""
    return {stage: one.get(stage, 0.0) + other.get(stage, 0.0) for stage in {**one, **other}}


def _rejected(target: Target, stage: Stage, reason: str) -> Execution:
    return Execution(str(target), Outcome.REJECTED, stage, failure=Failure("Unsupported", reason))


def _execution(target: Target, report: TaskReport[Ran], converter: str, convert_seconds: float, room: int) -> Execution:
    durations = {"convert": convert_seconds} if converter else {}
    base = Execution(
        str(target),
        Outcome.OK,
        known_stage(report.stage),
        log=tail(report.log),
        durations={**durations, "total": report.seconds},
        peak_memory=report.peak_memory,
        converter=converter,
    )
    ran = report.answer
    if ran is None and report.spoilt:
        return replace(base, outcome=Outcome.ERROR, problem=report.spoilt, version=target.version or "")
    if ran is None:
        outcome = ENDED[report.ending]
        version = target.version or BACKENDS.get(target.backend).version()  # a dead worker cannot report it
        return replace(base, outcome=outcome, failure=Failure(report.detail, ""), version=version)
    try:
        outputs = tuple(load_tensors(handed(path), most=room) for path in ran.outputs)
        repeated = tuple(load_tensors(handed(path), most=room) for path in ran.repeated)
    except TooLarge as error:
        return replace(base, outcome=Outcome.ERROR, problem=_too_large(error), version=ran.version)
    except (DamagedFile, OSError) as error:
        problem = f"its results cannot be read, since the program changed their files: {error}"
        return replace(base, outcome=Outcome.ERROR, problem=problem, version=ran.version)
    return replace(
        base,
        outcome=ran.outcome,
        stage=ran.stage,
        outputs=outputs,
        failure=ran.failure,
        durations={**durations, **ran.durations, "total": report.seconds},
        version=ran.version,
        problem=ran.problem,
        repeated=repeated,
        repeat_failure=ran.repeat_failure,
    )


def _inconclusive(target: Target, told: str) -> TargetResult:
    """Return the row of a target about which nothing was found out."""
    execution = Execution(str(target), Outcome.ERROR, Stage.RUN, problem=told)
    return TargetResult(target, execution, Verdict(Judgement.INCONCLUSIVE, told))


def _own_fault(target: Target, error: Exception) -> TargetResult:
    verdict = Verdict(Judgement.INCONCLUSIVE, "Driftline itself failed; this says nothing about the compiler")
    execution = Execution(str(target), Outcome.ERROR, Stage.RUN, problem="internal error")
    told = str(error) if isinstance(error, InternalError) else "".join(traceback.format_exception(error))
    return TargetResult(target, execution, verdict, internal_error=told)


def _too_large(error: TooLarge) -> str:
    return f"its results are too large to be compared: {error}. Raise --memory, or give smaller inputs"


def _reference_sample(found: SampleFiles, ask: AskArithmetic, room: int) -> ReferenceSample:
    if found.native is None:
        return ReferenceSample(failure=found.failure)
    try:
        return _read_sample(found, found.native, ask, room)
    except (DamagedFile, OSError) as error:
        return ReferenceSample(failure=Failure("DamagedFile", f"the results of the reference cannot be read: {error}"))


def _read_sample(found: SampleFiles, native: Path, ask: AskArithmetic, room: int) -> ReferenceSample:
    return ReferenceSample(
        native=load_tensors(handed(native), most=room),
        exact=load_tensors(handed(found.exact), most=2 * room) if found.exact else None,
        spread=load_tensors(handed(found.spread), most=4 * room) if found.spread else {},
        refusal=found.refusal,
        around=found.around,
        note=found.note,
        seconds=found.seconds,
        shadow=ask if found.shadow else None,
        stored={name: load_tensors(handed(path), most=2 * room) for name, path in found.stored.items()},
    )


def _digest(sample: Inputs) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sample.arrays.items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def _storages(case: Case) -> tuple[str, ...]:
    """Return the storage formats in which the targets keep values in fewer bits than the program says."""
    found = {declared(declared_arithmetic(BACKENDS.get(target.backend), target)).storage for target in case.targets}
    return tuple(sorted(found - {""}))


def declared_arithmetic(backend: Backend, target: Target) -> str:
    options = dict(target.options)
    names = (backend.arithmetic_with(options), options.get("arithmetic", ""))
    return "+".join(name for name in names if name)
