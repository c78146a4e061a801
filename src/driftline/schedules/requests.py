"""What workers are asked about schedules and what they answer. No compiler is imported here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from driftline.core.evidence import NOTHING, Evidence
from driftline.core.task import Task
from driftline.schedules.trace import RANDOM, ScheduleStep, Trace

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
    """Draw a schedule for each seed, and perform it."""

    seeds: tuple[int, ...]
    functions: tuple[str, ...]
    target: str
    folder: Path  # for the journal
    shared: Path  # for what the unscheduled functions compute
    space: str = RANDOM


@dataclass(frozen=True)
class PerformRequest:
    """Perform these traces. `lenient`: a step that has no place, or is refused, is left out instead of ending it."""

    traces: tuple[Trace, ...]
    folder: Path
    shared: Path
    lenient: bool = False


@dataclass(frozen=True)
class AllPerformed:
    """All answers are in the journal."""


DRAW = Task(f"{_TASKS}:draw", DrawRequest, AllPerformed)
PERFORM = Task(f"{_TASKS}:perform", PerformRequest, AllPerformed)
