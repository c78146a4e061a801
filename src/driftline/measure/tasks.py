"""The tasks of a worker that is timed. It compiles one program in its first task and keeps it."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from driftline.backends import BACKENDS
from driftline.backends.base import CompiledFacts, bare_call, compiled_facts
from driftline.core.errors import DriftlineError, InternalError
from driftline.core.execution import Failure, Outcome, Stage
from driftline.core.full_disk import no_room
from driftline.core.plugins import load_plugins
from driftline.core.task import Context
from driftline.execute.processes import tree_usage
from driftline.hardware.violation import ConstraintViolation
from driftline.measure.instructions import instructions
from driftline.measure.requests import KEEP, TIME, CallTimes, KeepRequest, Kept, TimeRequest
from driftline.programs.opened import OpenedProgram

_LIVE_FORMS = ("source", "torch")
_kept: list[Callable[[], object]] = []  # the one call of this process


@KEEP.serve
def keep(request: KeepRequest, context: Context) -> Kept:
    """Compile the program of the request, call it once, and keep it for timing."""
    case = request.case
    load_plugins(case.plugins)
    backend = BACKENDS.get(request.backend)
    empty = tree_usage(os.getpid()).memory
    instructions()  # threads are counted that are started from now on
    if request.cold:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(case.folder / "inductor")
        os.environ["TRITON_CACHE_DIR"] = str(case.folder / "triton")
    arrays = case.samples()[0]
    program = OpenedProgram.of(case, arrays, context.enter)
    result = Kept(Outcome.OK, Stage.COMPILE, version=backend.version(), empty_memory=empty)
    context.enter(Stage.COMPILE)
    try:
        if program.form in _LIVE_FORMS:
            _ = program.live  # building a model is not compiling it
        began, used = time.perf_counter(), _cpu_seconds()
        compiled = backend.compile(program, request.options)
        context.enter(Stage.RUN)
        result = replace(result, stage=Stage.RUN)
        call = bare_call(compiled, arrays)
        program.reseed()
        call()
        seconds, cpu = time.perf_counter() - began, _cpu_seconds() - used
    except MemoryError:
        return replace(result, outcome=Outcome.OOM)
    except DriftlineError as error:
        return replace(result, outcome=Outcome.ERROR, problem=str(error))
    except Exception as error:
        if no_room(error):
            raise
        outcome = Outcome.REJECTED if backend.is_rejection(error) else Outcome.ERROR
        return replace(result, outcome=outcome, failure=Failure.of(error), facts=_facts_of_error(error))
    _kept[:] = [call]
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection in the middle of a round would be counted
    return replace(
        result, first_result=seconds, first_cpu=cpu, facts=compiled_facts(compiled), device_memory=_device_memory()
    )


@TIME.serve
def time_calls(request: TimeRequest, context: Context) -> CallTimes:
    """Call the kept program several times and return the total times."""
    if not _kept:
        raise InternalError("there is nothing to time: the program was not compiled in this process")
    call = _kept[0]
    executed, cpu, wall = instructions(), time.process_time(), time.perf_counter()
    for _ in range(request.calls):
        call()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return CallTimes(wall, cpu, _device_memory(), instructions() - executed)


def _facts_of_error(error: Exception) -> CompiledFacts:
    """Return the violations that a strict profile raised."""
    return (
        CompiledFacts(violations=len(error.violations)) if isinstance(error, ConstraintViolation) else CompiledFacts()
    )


def _cpu_seconds() -> float:
    """Return the CPU seconds of this process and of the child processes that it waited for, since Inductor calls a C++
    compiler.
    """
    return sum(os.times()[:4])


def _device_memory() -> int:
    """Return the most bytes that torch has used on a GPU so far."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    return int(torch.cuda.max_memory_allocated())
