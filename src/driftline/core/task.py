"""Tasks: what a worker can be asked, declared once for both ends.

A `Task` has a name, the type of its request and the type of its answer. The caller gives it to `Pool.run`, with a
request; the function that does the work is marked with `serve`, and the worker finds it by the name. A type checker
then sees a wrong field on either side, and a reader gets from the caller to the function, and back, by one name.

    RUN = Task("driftline.execute.tasks:run", RunRequest, RunAnswer)

    report = pool.run(kind, RUN, RunRequest(...))     # in the parent

    @RUN.serve                                        # in driftline/execute/tasks.py
    def run(request: RunRequest, context: Context) -> RunAnswer: ...

A declaration imports no compiler; where its function does, it stands in a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from driftline.core.wire import Json, decode, encode

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Context(Protocol):
    """What a task may say while it works."""

    def enter(self, stage: str) -> None:
        """Announce a stage, so that a crash can be placed."""

    def lap(self) -> None:
        """One of many things is done: the time limit is for the next one."""


@dataclass(frozen=True)
class Task(Generic[Request, Answer]):
    """A question that workers answer. `name` is `module:function`, where the function is found that is served."""

    name: str
    request: type[Request]
    answer: type[Answer]

    def serve(self, function: Callable[[Request, Context], Answer]) -> Service[Request, Answer]:
        """The function that does it. It must have the task's name, by which workers import it."""
        found = f"{function.__module__}:{function.__name__}"
        if found != self.name:
            raise TypeError(f"{self.name} is served by {found}, where no worker looks for it")
        return Service(self, function)


@dataclass(frozen=True)
class Service(Generic[Request, Answer]):
    """A task with the function that does it."""

    task: Task[Request, Answer]
    function: Callable[[Request, Context], Answer]

    def __call__(self, request: Request, context: Context) -> Answer:
        return self.function(request, context)

    def answer(self, request: Json, context: Context) -> Json:
        """Called by the worker, with what arrived."""
        return encode(self.task.answer, self.function(decode(self.task.request, request), context))
