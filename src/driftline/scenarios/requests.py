"""The requests to workers about scripts: record a run, and judge single events from the compiled run's own state.

The functions are in `play.py`. Events and tensors are stored in files of the job's folder (`recording.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from driftline.core.evidence import NOTHING, Evidence
from driftline.core.task import Task
from driftline.core.verdict import Kind

_PLAY = "driftline.scenarios.play"

OWN_BACKEND = "a backend of the script"  # in `Recorded.backends`: a function, which has no name in torch


class PlayWay(StrEnum):
    """The ways to execute a script."""

    EAGER = "eager"  # torch.compile returns the callable itself
    ROUNDED = "rounded"  # as EAGER, with every floating-point result moved by up to one rounding step
    COMPILED = "compiled"  # with the compiler


@dataclass(frozen=True)
class RecordRequest:
    """A request to execute a script and record its events in `folder`."""

    script: Path
    text: str
    folder: Path
    way: PlayWay
    backend: str = ""  # replaces the script's own backend
    fill: int = 0x55  # byte that fills newly allocated memory
    seed: int = 0
    most_events: int = 2000


class Trouble(StrEnum):
    """The reasons why a script cannot be recorded."""

    STDIN = "stdin"  # it reads its standard input
    PROCESS = "process"  # it starts a process
    ARGUMENTS = "arguments"  # it needs arguments on its command line
    LOADING = "loading"  # it cannot be compiled by Python


@dataclass(frozen=True)
class Recorded:
    """The answer about a script that ended, possibly by an exception."""

    printed: str = ""
    printed_bytes: int = 0
    trouble: Trouble | None = None
    detail: str = ""  # of the trouble
    asks_compiler: bool = False  # it passes its own backend to torch.compile
    backends: tuple[str, ...] = ()  # backends passed to torch.compile, each once: names of torch, or `OWN_BACKEND`
    other_threads: int = 0  # calls of compiled callables in other threads: not recorded
    unrecorded: int = 0  # events beyond `most_events`
    seconds: float = 0.0
    recording_seconds: float = 0.0  # spent on reading and writing what was seen


RECORD = Task(f"{_PLAY}:record", RecordRequest, Recorded)


@dataclass(frozen=True)
class EventQuestion:
    """A request to judge one event, running without the compiler from the event `start` on. `paths`: tensors whose
    values differ."""

    event: int
    start: int
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class RejudgeRequest:
    """A request to execute a script compiled, and to judge some of its events from the state that each begins with."""

    run: RecordRequest
    compiled: Path  # the folder of the compiled run's recording
    questions: tuple[EventQuestion, ...]
    patience: float = 60.0  # seconds for one event


@dataclass(frozen=True)
class WrongTensor:
    """A tensor that the oracle found wrong."""

    path: str
    kind: Kind
    evidence: Evidence = NOTHING
    reason: str = ""


@dataclass(frozen=True)
class Rejudged:
    """The answer about one event, observed without the compiler from the compiled run's own state. The recording in
    `folder` contains this event."""

    event: int
    folder: Path
    wrong: tuple[WrongTensor, ...] = ()
    unjudged: tuple[str, ...] = ()  # paths of tensors that could not be judged
    note: str = ""  # why the rounding noise is not known here


@dataclass(frozen=True)
class RejudgeAnswer:
    """The answer to a `RejudgeRequest`, one item per judged event."""

    answers: tuple[Rejudged, ...] = ()


def _fits(asked: RejudgeRequest, answer: RejudgeAnswer) -> bool:
    return {one.event for one in answer.answers} <= {question.event for question in asked.questions}


REJUDGE = Task(f"{_PLAY}:rejudge", RejudgeRequest, RejudgeAnswer, _fits)
