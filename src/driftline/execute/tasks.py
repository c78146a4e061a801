"""What workers are asked to do: probe a backend, or run a program on it.

A task turns everything a compiler does into a plain dict. Tensors stay in files.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from driftline.backends import BACKENDS
from driftline.backends.base import Backend, Blamed
from driftline.core.errors import DriftlineError
from driftline.core.execution import Failure, Outcome, Stage
from driftline.core.plugins import load_plugins
from driftline.core.tensors import Arrays, load_tensors, save_tensors
from driftline.execute.grouping import in_company
from driftline.execute.shelf import Shelf
from driftline.execute.shelf import load_samples as load_samples
from driftline.execute.shelf import save_samples as save_samples
from driftline.execute.worker import Context
from driftline.programs.opened import OpenedProgram, ProgramChanged, open_axes

Keep = Callable[[Arrays, int], str]  # puts the outputs for a sample away, and says where


def probe(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """Is this backend usable here?"""
    load_plugins(payload["plugins"])
    found = BACKENDS.get(payload["backend"]).probe()
    return {
        "available": found.available,
        "version": found.version,
        "devices": list(found.devices),
        "reason": found.reason,
    }


def run(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """Compile a program once and run it on every input sample."""
    load_plugins(payload["plugins"])
    backend = BACKENDS.get(payload["backend"])
    samples = [load_tensors(path) for path in payload["inputs"]]
    stage = _StageClock(context)
    opened = {**payload, "open_axes": open_axes(samples)}
    program = OpenedProgram.from_payload(opened, samples[0], stage.enter)
    folder = Path(payload["folder"])

    def keep(arrays: Arrays, index: int) -> str:
        path = folder / f"{index}.safetensors"
        save_tensors(path, arrays)
        return str(path)

    return {"version": backend.version(), **_run(backend, payload["options"], program, samples, keep, stage)}


def _run(
    backend: Backend,
    options: dict[str, str],
    program: OpenedProgram,
    samples: Sequence[Arrays],
    keep: Keep,
    stage: _StageClock,
) -> dict[str, Any]:
    answer: dict[str, Any] = {"outputs": []}
    anew = bool(program.open_axes) and backend.fixes_sizes(program)
    if anew:
        program.open_axes = {}
    try:
        stage.enter(Stage.COMPILE)
        compiled = backend.compile(program, options)
        stage.enter(Stage.RUN)
        for index, arrays in enumerate(samples):
            if anew and _shapes(arrays) != _shapes(program.example):
                stage.enter(Stage.COMPILE)
                program.example = arrays
                compiled = backend.compile(program, options)
                stage.enter(Stage.RUN)
            program.reseed()
            answer["outputs"].append(keep(compiled(arrays), index))
        answer["outcome"] = Outcome.OK
    except MemoryError:
        answer["outcome"] = Outcome.OOM
    except (ProgramChanged, DriftlineError) as error:  # what the user can mend, not what the compiler did
        answer["outcome"] = Outcome.ERROR
        answer["problem"] = str(error)
    except Exception as error:
        answer["outcome"] = _classify(backend, error)
        answer["failure"] = Failure.of(error).to_json()
    answer["stage"] = stage.current
    answer["durations"] = stage.finish()
    return answer


def _shapes(arrays: Arrays) -> list[tuple[int, ...]]:
    return [array.shape for array in arrays.values()]


RESULTS = "results.jsonl"
TENSORS = "tensors"
TOGETHER = "together"  # the stage of programs that are compiled as one


def run_many(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """Run many programs, each by itself, and write each result down as soon as it is there: should a program kill
    this process, those before it are safe, and the last stage tells which one it was."""
    load_plugins(payload["plugins"])
    backend, options = BACKENDS.get(payload["backend"]), payload["options"]
    folder = Path(payload["folder"])
    batch = [_Job(job, context) for job in payload["jobs"]]
    with open(folder / RESULTS, "a") as results, Shelf(folder / TENSORS) as shelf, backend.watching() as behaviour:

        def note(job: _Job, **what: Any) -> None:
            results.write(json.dumps({"number": job.number, **what}) + "\n")
            results.flush()

        def keeper(job: _Job) -> Keep:
            def keep(arrays: Arrays, index: int) -> str:
                place = shelf.put(arrays)
                note(job, finished=place)
                return place

            return keep

        for group in in_company(batch, lambda job: str(job.payload["company"]), backend.together):
            together = _run_in_company(backend, options, group, shelf, context)
            for job in group:
                context.lap()
                answer, program = together.get(job.number, (None, None))
                if answer is None or program is None:
                    samples = load_samples(job.payload["tensors"])
                    program = OpenedProgram.from_payload(job.payload, samples[0], job.stage.enter)
                    answer = _run(backend, options, program, samples, keeper(job), job.stage)
                if behaviour:
                    answer["behaviour"] = behaviour(program)
                note(job, **answer)
    return {}


class _Job:
    """One program of many; its stages are announced with its number."""

    def __init__(self, payload: dict[str, Any], context: Context) -> None:
        self.payload = payload
        self.number = int(payload["number"])
        self.stage = _StageClock(_Numbered(context, self.number))


class _Numbered:
    def __init__(self, context: Context, number: int) -> None:
        self._context = context
        self._number = number

    def enter(self, stage: str) -> None:
        self._context.enter(f"{self._number} {stage}")


_Answers = dict[int, tuple[dict[str, Any], OpenedProgram]]  # by number, each with its program


def _run_in_company(
    backend: Backend, options: dict[str, str], group: Sequence[_Job], shelf: Shelf, context: Context
) -> _Answers:
    """Results by number, of programs compiled together. One that fails must not cost all of them their company: they
    are tried again without it, or where nobody tells which one it is, in halves. What is missing at the end is to be
    run by itself."""
    if len(group) < 2:
        return {}
    context.lap()
    try:
        return _run_together(backend, options, group, shelf)
    except Blamed as blamed:
        parts: list[Sequence[_Job]] = [[job for place, job in enumerate(group) if place not in blamed.programs]]
    except Exception:  # whose fault it is, and what it says, is found out program by program
        half = len(group) // 2
        parts = [group[:half], group[half:]]
    answers: _Answers = {}
    for part in parts:
        answers |= _run_in_company(backend, options, part, shelf, context)
    return answers


def _run_together(backend: Backend, options: dict[str, str], group: Sequence[_Job], shelf: Shelf) -> _Answers:
    """Results by number. Nothing when this backend does not do it at all."""
    samples = [load_samples(job.payload["tensors"]) for job in group]
    programs = [
        OpenedProgram.from_payload(job.payload, own[0], lambda stage: None)
        for job, own in zip(group, samples, strict=True)
    ]
    group[0].stage.announce(TOGETHER)
    places: list[list[str]] = [[] for _ in group]
    compiled = backend.compile_together(programs, samples, options)
    if compiled is None:
        return {}
    for index in range(len(samples[0])):
        programs[0].reseed()
        for kept, outputs in zip(places, compiled([own[index] for own in samples]), strict=True):
            kept.append(shelf.put(outputs))
    done = {"outcome": Outcome.OK, "stage": Stage.RUN, "durations": {}}
    return {
        job.number: ({**done, "outputs": kept}, program)
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
