"""Tasks: requests that a worker can carry out, declared once for both ends.

A `Task` has a name, the type of its request and the type of its answer. The caller passes it to `Pool.run` with a
request; the function that does the work is marked with `serve`, and the worker finds it by the name. So a type checker
sees a wrong field on either side, and a reader finds the function of a caller, and the callers of a function, by one
name.

    RUN = Task("driftline.execute.tasks:run", RunRequest, RunAnswer)

    report = pool.run(kind, RUN, RunRequest(...))     # in the parent

    @RUN.serve                                        # in driftline/execute/tasks.py
    def run(request: RunRequest, context: Context) -> RunAnswer: ...

A declaration imports no compiler. If its function does, the two are in different files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from driftline.core.wire import Json, decode, encode

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Context(Protocol):
    """The messages that a running task may send."""

    def enter(self, stage: str) -> None:
        """Announce a stage, so that a crash can be attributed to it."""

    def lap(self) -> None:
        """Report that one of many items is done: the time limit starts again for the next one."""


@dataclass(frozen=True)
class Task(Generic[Request, Answer]):
    """A request type that workers serve. `name` is `module:function`, the function that serves it. `fits` tells whether
    an answer can be one to a request: the caller uses no other, since the program in a worker may have written it."""

    name: str
    request: type[Request]
    answer: type[Answer]
    fits: Callable[[Request, Answer], bool] = lambda request, answer: True

    def serve(self, function: Callable[[Request, Context], Answer]) -> Service[Request, Answer]:
        """Mark a function as the one that serves this task. Its module and name must be those of the task, by which
        workers import it."""
        found = f"{function.__module__}:{function.__name__}"
        if found != self.name:
            raise TypeError(f"{self.name} is served by {found}, where no worker looks for it")
        return Service(self, function)


@dataclass(frozen=True)
class Service(Generic[Request, Answer]):
    """A task with the function that serves it."""

    task: Task[Request, Answer]
    function: Callable[[Request, Context], Answer]

    def __call__(self, request: Request, context: Context) -> Answer:
        return self.function(request, context)

    def answer(self, request: Json, context: Context) -> Json:
        """Decode a request, call the function, and return the encoded answer; called by the worker."""
        return encode(self.task.answer, self.function(decode(self.task.request, request), context))
