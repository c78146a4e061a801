"""Tasks of workers: probe a backend, or run programs on it.

A task turns everything that a compiler does into a value (`execute/requests.py`). Tensors stay in files.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from driftline.backends import BACKENDS
from driftline.backends.base import Availability, Backend, Blamed, Options
from driftline.core.compiler_caches import own_caches, point_elsewhere, remove_all, remove_damaged
from driftline.core.errors import DriftlineError
from driftline.core.execution import Failure, Outcome, Stage
from driftline.core.full_disk import no_room
from driftline.core.plugins import load_plugins
from driftline.core.registry import import_string
from driftline.core.task import Context
from driftline.core.tensors import Arrays, load_tensors, save_tensors
from driftline.core.text import first_line
from driftline.core.wire import encode
from driftline.execute.further_calls import NO_FURTHER_CALLS, FurtherCalls, Keep, Repeated
from driftline.execute.grouping import in_company
from driftline.execute.new_memory import USUAL, in_filled_memory, new_memory_filled
from driftline.execute.own_fault import is_ours
from driftline.execute.requests import (
    CHECK_SETTINGS,
    EMPTY_CACHES,
    FIT,
    PROBE,
    RESULTS,
    RUN,
    RUN_MANY,
    TENSORS,
    TOGETHER,
    BatchJob,
    CheckedSettings,
    EmptiedCaches,
    EmptyCachesRequest,
    FitAnswer,
    FitRequest,
    ProbeRequest,
    Ran,
    RanMany,
    ResultLine,
    RunManyRequest,
    RunRequest,
    SettingsRequest,
)
from driftline.execute.shelf import Shelf, load_samples
from driftline.programs.opened import OpenedProgram, open_axes


@PROBE.serve
def probe(request: ProbeRequest, context: Context) -> Availability:
    """Return whether a backend is usable in this worker."""
    load_plugins(request.plugins)
    return BACKENDS.get(request.backend).probe()


@FIT.serve
def fit(request: FitRequest, context: Context) -> FitAnswer:
    """Return whether this process may serve another task."""
    try:
        return FitAnswer(bool(import_string(request.function)(request.argument)))
    except Exception:
        traceback.print_exc()  # into the log of the worker
        return FitAnswer(False)


@EMPTY_CACHES.serve
def empty_caches(request: EmptyCachesRequest, context: Context) -> EmptiedCaches:
    remove = remove_damaged if request.damaged_alone else remove_all
    return EmptiedCaches(remove(own_caches()))


@CHECK_SETTINGS.serve
def check_settings(request: SettingsRequest, context: Context) -> CheckedSettings:
    """Return the compiler's complaint about settings, or an empty answer."""
    load_plugins(request.plugins)
    try:
        BACKENDS.get(request.backend).check_settings(request.settings)
    except DriftlineError as error:
        return CheckedSettings(str(error))
    return CheckedSettings()


@RUN.serve
def run(request: RunRequest, context: Context) -> Ran:
    """Compile a program once and run it on every input sample."""
    case = request.case
    load_plugins(case.plugins)
    backend = BACKENDS.get(request.backend)
    if request.anew:
        point_elsewhere(Path(tempfile.mkdtemp(prefix="caches-")))
        backend.begin_anew()
    samples = case.samples()
    stage = _StageClock(context)
    program = OpenedProgram.of(case, samples[0], stage.enter)
    program.open_axes = open_axes(samples)
    program.captured = Path(request.captured) if request.captured else None

    def keep(arrays: Arrays, index: int) -> str:
        path = case.folder / f"{index}.safetensors"
        save_tensors(path, arrays)
        return str(path)

    resized = load_tensors(request.resized) if request.resized else None
    repeats = tuple(load_tensors(path) for path in request.repeats)
    further = FurtherCalls(repeats, resized, request.threads, request.fill)
    version = backend.version()
    return replace(_run(backend, request.options, program, samples, keep, stage, further), version=version)


def _run(
    backend: Backend,
    options: Options,
    program: OpenedProgram,
    samples: Sequence[Arrays],
    keep: Keep,
    stage: _StageClock,
    further: FurtherCalls = NO_FURTHER_CALLS,
) -> Ran:
    outputs: list[str] = []
    outcome, failure, problem = Outcome.OK, None, ""
    anew = bool(program.open_axes) and backend.fixes_sizes(program)
    if anew:
        program.open_axes = {}
    try:
        stage.enter(Stage.COMPILE)
        began = _processor_seconds()
        compiled = in_filled_memory(backend.compile(program, options), further.fill)
        compiling = _processor_seconds() - began
        stage.enter(Stage.RUN)
        for index, arrays in enumerate(samples):
            if anew and _shapes(arrays) != _shapes(program.example):
                stage.enter(Stage.COMPILE)
                program.example = arrays
                compiled = in_filled_memory(backend.compile(program, options), further.fill)
                stage.enter(Stage.RUN)
            program.reseed()
            outputs.append(keep(compiled(arrays), index))
        durations = stage.finish()
        repeated = Repeated()
        if not (anew or program.open_axes):  # samples of several sizes
            repeated = further.make(backend, compiled, program, samples, outputs, keep, durations, compiling)
        done = Ran(outcome, stage.current, tuple(outputs), durations)
        return replace(done, repeated=repeated.outputs, repeat_failure=repeated.failure)
    except MemoryError:
        outcome = Outcome.OOM
    except DriftlineError as error:  # an error of the user, not of the compiler
        outcome, problem = Outcome.ERROR, str(error)
    except Exception as error:
        if no_room(error):
            raise
        if is_ours(error):
            told = f"Driftline itself failed: {type(error).__name__}: {first_line(str(error), 150)}"
            ended = Ran(Outcome.ERROR, stage.current, tuple(outputs), stage.finish(), problem=told)
            return replace(ended, internal_error=traceback.format_exc())
        outcome, failure = _classify(backend, error), Failure.of(error)
    return Ran(outcome, stage.current, tuple(outputs), stage.finish(), failure, problem)


def _processor_seconds() -> float:
    """Return the processor seconds of this process and of its finished children, such as a C++ compiler."""
    return sum(os.times()[:4])


def _shapes(arrays: Arrays) -> list[tuple[int, ...]]:
    return [array.shape for array in arrays.values()]


@RUN_MANY.serve
def run_many(request: RunManyRequest, context: Context) -> RanMany:
    """Run many programs. Each result is written as soon as it is known: if a program kills this process, earlier
    results are safe, and the last stage names the program."""
    load_plugins(request.plugins)
    backend = BACKENDS.get(request.backend)
    folder = request.folder
    batch = [_Job(job, context) for job in request.jobs]
    with open(folder / RESULTS, "a") as results, Shelf(folder / TENSORS) as shelf, backend.watching() as behaviour:

        def note(line: ResultLine) -> None:
            results.write(json.dumps(encode(ResultLine, line)) + "\n")
            results.flush()

        def keeper(job: _Job) -> Keep:
            def keep(arrays: Arrays, index: int) -> str:
                place = shelf.put(arrays)
                note(ResultLine(job.number, finished=place))
                return place

            return keep

        for group in in_company(batch, lambda job: job.asked.company, backend.together):
            options = {**request.options, **group[0].asked.options}
            together = _run_in_company(backend, options, group, shelf, context)
            for job in group:
                context.lap()
                ran, program = together.get(job.number, (None, None))
                if ran is None or program is None:
                    samples = load_samples(job.asked.tensors)
                    program = job.opened(samples[0], job.stage.enter)
                    ran = _run(backend, options, program, samples, keeper(job), job.stage)
                if behaviour:
                    ran = replace(ran, behaviour=tuple(behaviour(program)))
                note(ResultLine(job.number, ran=ran))
    return RanMany()


class _Job:
    """One program of a batch; its stages are announced with its number."""

    def __init__(self, asked: BatchJob, context: Context) -> None:
        self.asked = asked
        self.number = asked.number
        self.stage = _StageClock(_Numbered(context, self.number))

    def opened(self, example: Arrays, enter: Callable[[str], None] = lambda stage: None) -> OpenedProgram:
        asked = self.asked
        return OpenedProgram(asked.program, example=example, grad=asked.grad, seed=asked.seed, enter=enter)


class _Numbered:
    def __init__(self, context: Context, number: int) -> None:
        self._context = context
        self._number = number

    def enter(self, stage: str) -> None:
        self._context.enter(f"{self._number} {stage}")


FEW = 5  # programs
_Answers = dict[int, tuple[Ran, OpenedProgram]]  # by number, each with its program


def _run_in_company(
    backend: Backend, options: Options, group: Sequence[_Job], shelf: Shelf, context: Context
) -> _Answers:
    """Compile programs together and return the results by number. If a program fails, the others are tried again
    without it, or in halves if it is unknown which program failed. Missing programs are to be run alone. Small groups
    that fail are not divided, since programs of one generator often fail alike."""
    if len(group) < 2:
        return {}
    context.lap()
    try:
        return _run_together(backend, options, group, shelf)
    except Blamed as blamed:
        parts: list[Sequence[_Job]] = [[job for place, job in enumerate(group) if place not in blamed.programs]]
    except Exception:  # the fault and its program are found by running the programs alone
        if len(group) <= FEW:
            return {}
        half = len(group) // 2
        parts = [group[:half], group[half:]]
    answers: _Answers = {}
    for part in parts:
        answers |= _run_in_company(backend, options, part, shelf, context)
    return answers


def _run_together(backend: Backend, options: Options, group: Sequence[_Job], shelf: Shelf) -> _Answers:
    """Compile and run a group of programs together; return the results by number, or an empty dict if the backend does
    not support it."""
    samples = [load_samples(job.asked.tensors) for job in group]
    programs = [job.opened(own[0]) for job, own in zip(group, samples, strict=True)]
    group[0].stage.announce(TOGETHER)
    places: list[list[str]] = [[] for _ in group]
    compiled = backend.compile_together(programs, samples, options)
    if compiled is None:
        return {}
    for index in range(max(map(len, samples))):
        programs[0].reseed()
        # Programs with fewer samples repeat their last one, and the results are dropped.
        with new_memory_filled(USUAL):
            results = compiled([own[min(index, len(own) - 1)] for own in samples])
        for kept, own, outputs in zip(places, samples, results, strict=True):
            if index < len(own):
                kept.append(shelf.put(outputs))
    return {
        job.number: (Ran(Outcome.OK, Stage.RUN, tuple(kept)), program)
        for job, kept, program in zip(group, places, programs, strict=True)
    }


def _classify(backend: Backend, error: Exception) -> Outcome:
    if backend.is_rejection(error):
        return Outcome.REJECTED
    if "bad_alloc" in str(error) or "DefaultCPUAllocator: can't allocate" in str(error):
        return Outcome.OOM
    return Outcome.ERROR


class _StageClock:
    """Announces stages to the parent and adds up the time spent in each."""

    def __init__(self, context: Context | _Numbered) -> None:
        self._context = context
        self._durations: dict[str, float] = {}
        self._since = time.perf_counter()
        self.current = Stage.COMPILE

    def enter(self, stage: str) -> None:
        self._settle()
        self.current = Stage(stage)
        self.announce(stage)

    def announce(self, stage: str) -> None:
        self._context.enter(stage)

    def _settle(self) -> None:
        now = time.perf_counter()
        key = self.current.lower()
        self._durations[key] = self._durations.get(key, 0.0) + now - self._since
        self._since = now

    def finish(self) -> dict[str, float]:
        self._settle()
        return self._durations
