"""How a task in a worker ended, and the exceptions of tasks that did not run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from driftline.core.errors import Interrupted
from driftline.core.task import Answer
from driftline.execute.messages import Ending


class PoolInterrupted(Interrupted):
    """The job was ended by `Pool.interrupt` or `Pool.close`: this says nothing about the task."""


class PoolExpired(PoolInterrupted):
    """The job was ended, or never begun, because the time of the pool is over (`Pool.deadline`)."""


DAMAGED = "wrote a damaged answer"  # the detail of a task whose process sent an invalid answer


class Lost(Exception):
    """The worker or its nursery was killed from outside before the job had a result that counts."""


@dataclass(frozen=True)
class TaskReport(Generic[Answer]):
    """How a task ended. Only a finished task has an answer."""

    ending: Ending
    answer: Answer | None = None
    stage: str = ""
    detail: str = ""
    log: str = ""
    seconds: float = 0.0
    peak_memory: int = 0

    @property
    def spoilt(self) -> str:
        """Why the answer of the process cannot be used; an empty string if it can, or if there is none."""
        if not self.detail.startswith(DAMAGED):
            return ""
        return f"its process {self.detail}, which a program can cause: this says nothing about the compiler"

    @property
    def result(self) -> Answer:
        return self.answer if self.answer is not None else {}  # type: ignore[return-value]
