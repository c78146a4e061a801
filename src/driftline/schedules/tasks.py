"""The tasks of TVM workers: draw and perform schedules, with a journal that survives the worker's end."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

from driftline.core.task import Context
from driftline.core.wire import encode
from driftline.execute.requests import RESULTS
from driftline.schedules.drawing import LAST, MOST_STEPS, draw_sizes, draw_step
from driftline.schedules.functions import function_of
from driftline.schedules.meta import NoPoint, draw_from_space
from driftline.schedules.passes import passes_changing
from driftline.schedules.performing import ScheduleBench
from driftline.schedules.performing import perform as perform_trace
from driftline.schedules.requests import (
    DRAW,
    PERFORM,
    AllPerformed,
    DrawRequest,
    JournalLine,
    Performed,
    PerformRequest,
)
from driftline.schedules.trace import META, ScheduleStep, Trace

_TRIES = 3  # draws for each step that is wanted
# Of so many drawn schedules one is compiled with LLVM's optimisations, which take half the time of a schedule: what TVM
# tells LLVM wrongly, such as that two buffers never overlap, shows only then.
_OPTIMISED = 4


class Journal:
    """Writes the journal of one batch, for one of its schedules."""

    def __init__(self, folder: Path, number: int) -> None:
        self._path = folder / RESULTS
        self._number = number

    def begin(self, trace: Trace) -> None:
        self._write(JournalLine(self._number, trace=trace))

    def tell(self, step: ScheduleStep | None, stage: str) -> None:
        self._write(JournalLine(self._number, step=step, stage=stage))

    def end(self, done: Performed) -> None:
        self._write(JournalLine(self._number, done=done))

    def _write(self, line: JournalLine) -> None:
        with open(self._path, "a") as file:
            file.write(json.dumps(encode(JournalLine, line)) + "\n")


@DRAW.serve
def draw(request: DrawRequest, context: Context) -> AllPerformed:
    for seed in request.seeds:
        context.lap()
        journal = Journal(request.folder, seed)
        journal.end(_drawn(request, seed, journal))
    return AllPerformed()


@PERFORM.serve
def perform(request: PerformRequest, context: Context) -> AllPerformed:
    for number, trace in enumerate(request.traces):
        context.lap()
        journal = Journal(request.folder, number)
        journal.begin(trace.with_steps(()))
        done = perform_trace(
            trace,
            request.shared,
            journal.tell,
            lenient=request.lenient,
            build=request.build,
            optimised=request.optimised,
            faithful=request.faithful,
        )
        journal.end(done)
    return AllPerformed()


def _drawn(request: DrawRequest, seed: int, journal: Journal) -> Performed:
    rng = random.Random(seed)
    name = rng.choice(request.functions)
    function = function_of(Trace(name, kernel=request.kernels.get(name)))
    trace = Trace(name, draw_sizes(function, rng), target=request.target, kernel=request.kernels.get(name))
    journal.begin(trace)
    optimised = seed % _OPTIMISED == 0
    if request.space == META:
        try:
            steps = draw_from_space(function, trace.sizes, rng)
        except NoPoint as error:
            return Performed(trace, refused=str(error))
        return perform_trace(trace.with_steps(steps), request.shared, journal.tell, optimised=optimised, faithful=False)
    bench = ScheduleBench(trace, request.shared, optimised=optimised, faithful=False)
    wanted = rng.randint(1, MOST_STEPS)
    drawn = 0
    for _ in range(wanted * _TRIES):
        step = draw_step(bench.view, function, rng)
        if step is None:
            continue
        drawn += 1
        before = bench.trace
        bench.trace = before.with_steps((*before.steps, step))
        journal.tell(step, "")
        found = bench.apply(step)
        if found and not found.refused:
            return found
        if found:
            bench.trace = before
            journal.begin(before)  # a refused step is no part of the trace
        elif len(bench.trace.steps) == wanted or step.primitive == LAST:
            break
    if request.passes:
        changed, raised = passes_changing(bench.schedule.mod, bench.trace, request.passes)
        return Performed(bench.trace, drawn=drawn, changed_by=tuple(changed), raising=tuple(raised))
    return replace(bench.finish(journal.tell), drawn=drawn)
