"""What workers of targets are asked, and what they answer: probe a backend, run a program, run many.

The functions are in `execute/tasks.py`. Tensors stay in files; a message has their places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from driftline.backends.base import Availability
from driftline.core.case_files import CaseFiles
from driftline.core.execution import Failure, Outcome, Stage
from driftline.core.program import Program
from driftline.core.task import Task
from driftline.execute.messages import Ending
from driftline.execute.new_memory import USUAL

_TASKS = "driftline.execute.tasks"

# What a target did when its worker did not answer
ENDED = {Ending.DIED: Outcome.CRASH, Ending.TIMEOUT: Outcome.TIMEOUT, Ending.MEMORY: Outcome.OOM}


@dataclass(frozen=True)
class ProbeRequest:
    """Is this backend usable in the worker's environment?"""

    backend: str
    plugins: tuple[str, ...] = ()


PROBE = Task(f"{_TASKS}:probe", ProbeRequest, Availability)


@dataclass(frozen=True)
class FitRequest:
    """May this process serve another task? `function` says so, called with `argument`."""

    function: str
    argument: str


@dataclass(frozen=True)
class FitAnswer:
    fit: bool


FIT = Task(f"{_TASKS}:fit", FitRequest, FitAnswer)


@dataclass(frozen=True)
class EmptyCachesRequest:
    """Delete the code that compilers of this run keep on disk: all of it, or the damaged entries alone."""

    damaged_alone: bool


@dataclass(frozen=True)
class EmptiedCaches:
    removed: int  # entries


EMPTY_CACHES = Task(f"{_TASKS}:empty_caches", EmptyCachesRequest, EmptiedCaches)


@dataclass(frozen=True)
class SettingsRequest:
    """Does the compiler have these settings of its own?"""

    backend: str
    settings: Mapping[str, str]
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckedSettings:
    problem: str = ""  # what is wrong with one of them, in a sentence


CHECK_SETTINGS = Task(f"{_TASKS}:check_settings", SettingsRequest, CheckedSettings)


@dataclass(frozen=True)
class RunRequest:
    """Compile a program once and run it on every input sample."""

    case: CaseFiles
    backend: str
    options: Mapping[str, str]
    captured: str = ""  # the file of the program as `torch.export` sees it, where targets share that
    repeats: tuple[Path, ...] = ()  # inputs of further calls of the compiled program, after all samples
    resized: Path | None = None  # inputs of a last call, of another size, unless compiling takes long
    threads: int = 1  # how many threads call it at the same time in the end; 1: none do
    anew: bool = False  # without the code that the compiler keeps on disk
    fill: int = USUAL  # what every byte of new memory holds while the program runs


@dataclass(frozen=True)
class Ran:
    """What a backend did with one program. `stage` is the last one entered."""

    outcome: Outcome
    stage: Stage
    outputs: tuple[str, ...] = ()  # where they are, for each sample that was finished
    durations: Mapping[str, float] = field(default_factory=dict)
    failure: Failure | None = None
    problem: str = ""  # why it is the program or the harness, and not the compiler, that there is no result
    version: str = ""
    behaviour: tuple[str, ...] = ()  # rewrite rules of the compiler that fired, where it tells
    repeated: tuple[str, ...] = ()  # where the outputs of the further calls are
    repeat_failure: Failure | None = None  # what a further call raised
    internal_error: str = ""  # the traceback of a fault of ours, which is the problem


RUN = Task(f"{_TASKS}:run", RunRequest, Ran)


@dataclass(frozen=True)
class BatchJob:
    """One program of many."""

    number: int
    program: Program
    tensors: str  # the place of its input samples
    grad: bool
    seed: int
    company: str  # those of one company may be compiled together, and have the same options; none: alone
    options: Mapping[str, str] = field(default_factory=dict)  # besides those of all


@dataclass(frozen=True)
class RunManyRequest:
    """Run many programs, each by itself. Results are lines of the file `RESULTS` in the folder, outputs lie in
    `TENSORS` beside it: should a program kill the worker, what was done before it is there."""

    backend: str
    options: Mapping[str, str]
    jobs: tuple[BatchJob, ...]
    folder: Path
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class RanMany:
    """All of them were run."""


RUN_MANY = Task(f"{_TASKS}:run_many", RunManyRequest, RanMany)

RESULTS = "results.jsonl"
TENSORS = "tensors"
TOGETHER = "together"  # the stage of programs that are compiled as one


@dataclass(frozen=True)
class ResultLine:
    """One line of `RESULTS`: a sample of a program is finished, or all of it is."""

    number: int
    finished: str = ""  # the place of the outputs
    ran: Ran | None = None
