"""The messages between parent, nursery and worker. Jobs carry requests and answers of tasks (`core/task.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from driftline.core.wire import Json

# -- the parent to a nursery, and its answers


@dataclass(frozen=True)
class Warm:
    """The first message: functions to call before anything is forked, each with its argument."""

    calls: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Ready:
    seconds: float


@dataclass(frozen=True)
class NotReady:
    error: str


@dataclass(frozen=True)
class Fork:
    """An order to fork a worker. The worker's socket is sent beside the message."""

    number: int
    log: str


@dataclass(frozen=True)
class Serve:
    """An order to become the worker. Its socket is sent beside the message."""

    log: str


@dataclass(frozen=True)
class Kill:
    number: int


@dataclass(frozen=True)
class Forked:
    number: int
    pid: int


@dataclass(frozen=True)
class Exited:
    """A worker has ended; `status` is that of `os.wait`."""

    number: int
    status: int
    peak_memory: int


# -- the parent to a worker, and its answers


class Ending(StrEnum):
    """How a job ended: DONE with an answer or an exception of the task; otherwise the worker ended."""

    DONE = "done"
    DIED = "died"
    TIMEOUT = "timeout"
    MEMORY = "memory"  # or too many processes


@dataclass(frozen=True)
class Job:
    task: str
    request: Json
    vouched: bool = False  # files of the job may contain code


@dataclass(frozen=True)
class Started:
    """The worker has received the job."""


@dataclass(frozen=True)
class Entered:
    stage: str


@dataclass(frozen=True)
class Lap:
    """One of many items of a job is done: the time limit starts again for the next one."""


@dataclass(frozen=True)
class Answered:
    answer: Json
    peak_memory: int = 0


@dataclass(frozen=True)
class OutOfMemory:
    peak_memory: int = 0


@dataclass(frozen=True)
class Mistaken:
    """The task raised an exception. Tasks turn a compiler's errors into values, so this is a fault of Driftline."""

    error: str
    traceback: str
    peak_memory: int = 0


# -- the messages in each direction

Sent = TypeVar("Sent")
Received = TypeVar("Received")


@dataclass(frozen=True)
class Link(Generic[Sent, Received]):
    """The messages that one end of a channel sends and receives, as unions of dataclasses."""

    sends: Any
    receives: Any
    most: int = 64 << 20  # bytes of a message, in both directions: tensors are sent in files


ToNursery = Warm | Fork | Serve | Kill
FromNursery = Ready | NotReady | Forked | Exited
FromWorker = Started | Entered | Lap | Answered | OutOfMemory | Mistaken

PARENT_OF_NURSERY: Link[ToNursery, FromNursery] = Link(ToNursery, FromNursery)
NURSERY: Link[FromNursery, ToNursery] = Link(FromNursery, ToNursery)
PARENT_OF_WORKER: Link[Job, FromWorker] = Link(Job, FromWorker)
WORKER: Link[FromWorker, Job] = Link(FromWorker, Job)
