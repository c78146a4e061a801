"""How a task in a worker ended, and why it did not run at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from driftline.core.task import Answer
from driftline.execute.messages import Ending


class PoolInterrupted(Exception):
    """The job was ended by `Pool.interrupt` or `Pool.close`: this says nothing about the task."""


class PoolExpired(PoolInterrupted):
    """The job was ended, or never begun, because the time of the pool is over: see `Pool.deadline`."""


DAMAGED = "wrote a damaged answer"  # the detail of a task whose process sent what is no answer
SPOILT = f"its process {DAMAGED}, which a program can cause: this says nothing about the compiler"


class Lost(Exception):
    """The worker or its nursery was killed by somebody else: nothing of the job has run, or nothing that counts."""


@dataclass(frozen=True)
class TaskReport(Generic[Answer]):
    """How a task ended. Only one that is done has an answer."""

    ending: Ending
    answer: Answer | None = None
    stage: str = ""
    detail: str = ""
    log: str = ""
    seconds: float = 0.0
    peak_memory: int = 0

    @property
    def result(self) -> Answer:
        return self.answer if self.answer is not None else {}  # type: ignore[return-value]
