"""Requests to a worker that times a program: compile and keep it, then call it several times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from driftline.backends.base import CompiledFacts
from driftline.core.case_files import CaseFiles
from driftline.core.execution import Failure, Outcome, Stage
from driftline.core.task import Task

_TASKS = "driftline.measure.tasks"


@dataclass(frozen=True)
class KeepRequest:
    """Compile the program for its first sample, run it once, and keep it for the tasks that follow."""

    case: CaseFiles
    backend: str
    options: Mapping[str, str]
    cold: bool = True  # without cached compiled code, which would hide the cost of compiling


@dataclass(frozen=True)
class Kept:
    """The result of the compilation. The program is kept only if the outcome is OK."""

    outcome: Outcome
    stage: Stage
    first_result: float = 0.0  # seconds from the loaded program to its first result
    first_cpu: float = 0.0  # the same in CPU time, including programs that the compiler calls
    facts: CompiledFacts = field(default_factory=CompiledFacts)
    failure: Failure | None = None
    problem: str = ""
    version: str = ""
    empty_memory: int = 0  # bytes of the process before the program was loaded
    device_memory: int = 0  # most bytes on a GPU


@dataclass(frozen=True)
class TimeRequest:
    """Call the kept program."""

    calls: int


@dataclass(frozen=True)
class CallTimes:
    """The seconds of all calls together."""

    wall: float
    cpu: float
    device_memory: int = 0
    instructions: int = 0  # 0 where the kernel does not count them


KEEP = Task(f"{_TASKS}:keep", KeepRequest, Kept)
TIME = Task(f"{_TASKS}:time_calls", TimeRequest, CallTimes)
