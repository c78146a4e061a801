"""Requests to workers about schedules, and their answers. Imports no compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from driftline.core.evidence import NOTHING, Evidence
from driftline.core.task import Task
from driftline.schedules.trace import RANDOM, ModelKernel, ScheduleStep, Trace

_TASKS = "driftline.schedules.tasks"


@dataclass(frozen=True)
class Performed:
    """The result of performing a trace. Without a `kind` the trace computes what the unscheduled function does;
    `refused` names a step that TVM refused or that could not be applied, which is never a finding."""

    trace: Trace  # with the steps that were applied, including the failed one
    stage: str = ""
    kind: str = ""
    evidence: Evidence = NOTHING
    refused: str = ""
    wrong_runs: int = 0  # of `runs`; fewer than all of them: a race
    runs: int = 0
    drawn: int = 0  # steps that were tried
    changed_by: tuple[str, ...] = ()  # of the requested passes, those that change the scheduled module
    raising: tuple[str, ...] = ()  # of the requested passes, those that raise

    @property
    def fails(self) -> bool:
        return bool(self.kind)


@dataclass(frozen=True)
class JournalLine:
    """A line of the journal, written before each action, since the action may end the process."""

    number: int
    trace: Trace | None = None  # it begins
    step: ScheduleStep | None = None  # it is applied now
    stage: str = ""  # it is entered
    done: Performed | None = None


@dataclass(frozen=True)
class DrawRequest:
    """Draw a schedule for each seed and perform it; with `passes`, report instead which of them change it."""

    seeds: tuple[int, ...]
    functions: tuple[str, ...]
    target: str
    folder: Path  # for the journal
    shared: Path  # for the results of unscheduled functions
    space: str = RANDOM
    kernels: Mapping[str, ModelKernel] = field(default_factory=dict)  # functions that come from models, by name
    passes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PerformRequest:
    """Perform these traces. `lenient`: skip a step that is impossible or refused, instead of ending the trace. Without
    `build` they are neither compiled nor run; unless `optimised`, LLVM does not optimise them; for `faithful` see
    `performing.py`."""

    traces: tuple[Trace, ...]
    folder: Path
    shared: Path
    lenient: bool = False
    build: bool = True
    optimised: bool = True
    faithful: bool = True


@dataclass(frozen=True)
class AllPerformed:
    """An empty answer: all results are in the journal."""


@dataclass(frozen=True)
class KernelRequest:
    """List the kernels that TVM makes of an ONNX file, for inputs like those of the example."""

    model: Path
    example: Path


@dataclass(frozen=True)
class KernelAnswer:
    """The kernels that can be scheduled and compared exactly, by name."""

    kernels: Mapping[str, ModelKernel]
    others: int = 0  # that are not exact, or too long


DRAW = Task(f"{_TASKS}:draw", DrawRequest, AllPerformed)
PERFORM = Task(f"{_TASKS}:perform", PerformRequest, AllPerformed)
KERNELS = Task("driftline.schedules.extracting:extract", KernelRequest, KernelAnswer)
