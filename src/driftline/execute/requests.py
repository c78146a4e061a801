"""The requests to workers of targets and their answers: probe a backend, run a program, run many.

The functions are in `execute/tasks.py`. Tensors stay in files; a message holds their places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from driftline.backends.base import Availability
from driftline.core.case_files import CaseFiles
from driftline.core.execution import Failure, Outcome, Stage, is_time
from driftline.core.program import Program
from driftline.core.task import Task
from driftline.execute.messages import Ending
from driftline.execute.new_memory import USUAL

_TASKS = "driftline.execute.tasks"

# The outcome of a target whose worker ended without an answer
ENDED = {Ending.DIED: Outcome.CRASH, Ending.TIMEOUT: Outcome.TIMEOUT, Ending.MEMORY: Outcome.OOM}


@dataclass(frozen=True)
class ProbeRequest:
    """Asks whether a backend is usable in the worker's environment."""

    backend: str
    plugins: tuple[str, ...] = ()


PROBE = Task(f"{_TASKS}:probe", ProbeRequest, Availability)


@dataclass(frozen=True)
class FitRequest:
    """Asks whether this process may serve another task: `function`, called with `argument`, returns it."""

    function: str
    argument: str


@dataclass(frozen=True)
class FitAnswer:
    fit: bool


FIT = Task(f"{_TASKS}:fit", FitRequest, FitAnswer)


@dataclass(frozen=True)
class EmptyCachesRequest:
    """Asks to delete the code that compilers of this run keep on disk: all of it, or only the damaged entries."""

    damaged_alone: bool


@dataclass(frozen=True)
class EmptiedCaches:
    removed: int  # entries


EMPTY_CACHES = Task(f"{_TASKS}:empty_caches", EmptyCachesRequest, EmptiedCaches)


@dataclass(frozen=True)
class SettingsRequest:
    """Asks whether the compiler has these settings of its own."""

    backend: str
    settings: Mapping[str, str]
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckedSettings:
    problem: str = ""  # what is wrong with a setting, in a sentence


CHECK_SETTINGS = Task(f"{_TASKS}:check_settings", SettingsRequest, CheckedSettings)


@dataclass(frozen=True)
class RunRequest:
    """Asks to compile a program once and run it on every input sample."""

    case: CaseFiles
    backend: str
    options: Mapping[str, str]
    captured: str = ""  # the file of the program exported by `torch.export`, if targets share it
    repeats: tuple[Path, ...] = ()  # inputs of further calls of the compiled program, after all samples
    resized: Path | None = None  # inputs of a last call, of another size, unless compiling takes long
    threads: int = 1  # the number of threads that finally call it at the same time; 1: none
    anew: bool = False  # without the code that the compiler keeps on disk
    fill: int = USUAL  # the byte in all new memory while the program runs


@dataclass(frozen=True)
class Ran:
    """The result of a backend for one program. `stage` is the last one entered."""

    outcome: Outcome
    stage: Stage
    outputs: tuple[str, ...] = ()  # places of the outputs, for each finished sample
    durations: Mapping[str, float] = field(default_factory=dict)
    failure: Failure | None = None
    problem: str = ""  # why there is no result, if the program or the harness is to blame and not the compiler
    version: str = ""
    behaviour: tuple[str, ...] = ()  # rewrite rules of the compiler that fired, if the compiler reports them
    repeated: tuple[str, ...] = ()  # places of the outputs of the further calls
    repeat_failure: Failure | None = None  # the exception of a further call
    internal_error: str = ""  # the traceback of the fault of Driftline that is the problem


def fits(ran: Ran, samples: int, further: int = 0) -> bool:
    """True if this can be the result of a program that was run on so many samples, and called again so often."""
    complete = len(ran.outputs) == samples or ran.outcome is not Outcome.OK
    times = len(ran.durations) <= len(Stage) and all(map(is_time, ran.durations.values()))
    return complete and times and len(ran.outputs) <= samples and len(ran.repeated) <= further


RUN = Task(
    f"{_TASKS}:run",
    RunRequest,
    Ran,
    lambda asked, ran: fits(ran, len(asked.case.inputs), len(asked.repeats) + (asked.resized is not None)),
)


@dataclass(frozen=True)
class BatchJob:
    """One program of a batch."""

    number: int
    program: Program
    tensors: str  # the place of its input samples on a shelf
    grad: bool
    seed: int
    company: str  # programs with the same text may be compiled together and have the same options; empty: alone
    options: Mapping[str, str] = field(default_factory=dict)  # besides those of all programs


@dataclass(frozen=True)
class RunManyRequest:
    """Asks to run many programs, each by itself. Results are appended to the file `RESULTS` in the folder, outputs to
    `TENSORS` beside it, so that earlier results survive if a program kills the worker."""

    backend: str
    options: Mapping[str, str]
    jobs: tuple[BatchJob, ...]
    folder: Path
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class RanMany:
    """All programs of the batch were run."""


RUN_MANY = Task(f"{_TASKS}:run_many", RunManyRequest, RanMany)

RESULTS = "results.jsonl"
TENSORS = "tensors"
TOGETHER = "together"  # the stage of programs that are compiled as one program


@dataclass(frozen=True)
class ResultLine:
    """One line of `RESULTS`: one sample of a program, or the whole program, is finished."""

    number: int
    finished: str = ""  # the place of the outputs of the sample
    ran: Ran | None = None
