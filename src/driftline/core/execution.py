"""Executions: the outcome of one run of a program on a target, as a value, even if the run failed."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from driftline.core.tensors import Arrays
from driftline.core.text import first_line, tail, telling_line


class Outcome(StrEnum):
    """How an execution ended."""

    OK = "OK"
    REJECTED = "REJECTED"  # the compiler says it does not support this: never a bug by itself
    ERROR = "ERROR"  # the compiler raised something else
    CRASH = "CRASH"  # the process died of a signal or ended without an answer
    TIMEOUT = "TIMEOUT"
    OOM = "OOM"


class Stage(StrEnum):
    """The stages of an execution, in order."""

    CONVERT = "CONVERT"  # from the program's own form to one the backend accepts
    SCHEDULE = "SCHEDULE"  # schedule primitives are applied to a tensor program
    COMPILE = "COMPILE"
    RUN = "RUN"


def known_stage(text: str) -> Stage:
    """Return the stage that a worker named, or COMPILE if there is no such stage."""
    return Stage(text) if text in set(Stage) else Stage.COMPILE


def is_time(seconds: float) -> bool:
    """True for a number that can be a duration in seconds: neither negative nor NaN nor endless."""
    return 0 <= seconds < 1e9


@dataclass(frozen=True)
class Failure:
    """The exception that was raised, or how the process died, in words. Longer texts are cut: a worker wrote them."""

    type: str
    message: str
    traceback: str = ""

    def __post_init__(self) -> None:
        for name, most in (("type", 200), ("message", 8000), ("traceback", 16000)):
            if len(getattr(self, name)) > most:
                object.__setattr__(self, name, getattr(self, name)[:most])

    def to_json(self) -> dict[str, str]:
        return {"type": self.type, "message": self.message, "traceback": self.traceback}

    @staticmethod
    def of(error: BaseException, cause: BaseException | None = None) -> Failure:
        """Describe an exception. `cause`: the exception that says what happened, if `error` wraps it."""
        told = cause or error
        text = "".join(traceback.format_exception(error))
        return Failure(type(told).__name__, telling_line(str(told)), tail(text, 3000))

    @staticmethod
    def from_json(value: Mapping[str, str]) -> Failure:
        return Failure(value["type"], value["message"], value.get("traceback", ""))

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(frozen=True)
class Execution:
    """The complete record of one run. `outputs` has one entry for each input sample; `stage` is the last one
    entered."""

    target: str
    outcome: Outcome
    stage: Stage
    outputs: tuple[Arrays, ...] = ()
    failure: Failure | None = None
    log: str = ""
    durations: Mapping[str, float] = field(default_factory=dict)
    peak_memory: int = 0
    version: str = ""
    problem: str = ""  # why there is no result, if the harness is to blame and not the compiler
    converter: str = ""  # the converter that made the form that ran, if it was converted
    taken_by: str = ""  # the plainest form of the same compiler, if it runs the program that this target rejected
    repeated: tuple[Arrays, ...] = ()  # results of further calls of the compiled program, if requested
    repeat_failure: Failure | None = None  # the exception of a further call

    def __repr__(self) -> str:
        problem = f", problem: {first_line(self.problem, 120)}" if self.problem else ""
        return f"<Execution {self.target} {self.version}: {self.outcome} at {self.stage}{problem}>"

    def summary(self) -> dict[str, Any]:
        """Return the record as JSON, without the tensors."""
        return {
            "target": self.target,
            "outcome": str(self.outcome),
            "stage": str(self.stage),
            "failure": self.failure.to_json() if self.failure else None,
            "durations": {name: round(seconds, 4) for name, seconds in self.durations.items()},
            "peak_memory": self.peak_memory,
            "version": self.version,
            "converter": self.converter,
            "taken_by": self.taken_by,
        }
