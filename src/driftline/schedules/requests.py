"""What workers are asked about schedules and what they answer. No compiler is imported here."""

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
    """What became of a trace. Without a `kind` it computes what the unscheduled function does; `refused` names the step
    that TVM did not take or that has no place, which is never a finding."""

    trace: Trace  # with the steps that were taken, the one that failed included
    stage: str = ""
    kind: str = ""
    evidence: Evidence = NOTHING
    refused: str = ""
    wrong_runs: int = 0  # of `runs`; fewer than all of them: a race
    runs: int = 0
    drawn: int = 0  # steps that were tried
    changed_by: tuple[str, ...] = ()  # passes that change what the steps made, of those that were asked about
    raising: tuple[str, ...] = ()  # those of them that raise

    @property
    def fails(self) -> bool:
        return bool(self.kind)


@dataclass(frozen=True)
class JournalLine:
    """Written before the next thing is done, since that may end the process."""

    number: int
    trace: Trace | None = None  # it begins
    step: ScheduleStep | None = None  # it is applied now
    stage: str = ""  # it is entered
    done: Performed | None = None


@dataclass(frozen=True)
class DrawRequest:
    """Draw a schedule for each seed, and perform it; with `passes`, say which of them change it instead."""

    seeds: tuple[int, ...]
    functions: tuple[str, ...]
    target: str
    folder: Path  # for the journal
    shared: Path  # for what the unscheduled functions compute
    space: str = RANDOM
    kernels: Mapping[str, ModelKernel] = field(default_factory=dict)  # of the functions that are none of ours
    passes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PerformRequest:
    """Perform these traces. `lenient`: a step that has no place, or is refused, is left out instead of ending it.
    Without `build` they are scheduled and neither compiled nor run; unless `optimised`, LLVM does not optimise them;
    `faithful` is as in `performing.py`."""

    traces: tuple[Trace, ...]
    folder: Path
    shared: Path
    lenient: bool = False
    build: bool = True
    optimised: bool = True
    faithful: bool = True


@dataclass(frozen=True)
class AllPerformed:
    """All answers are in the journal."""


@dataclass(frozen=True)
class KernelRequest:
    """Which kernels does TVM make of this ONNX file, for inputs like those of the example?"""

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
