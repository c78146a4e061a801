"""Tasks that forge the answers of their worker, run in workers by `test_hostile_answers.py`."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

from driftline.core.execution import Outcome, Stage
from driftline.core.task import Task
from driftline.execute.requests import Ran

FORGE: Task[dict[str, Any], dict[str, Any]] = Task("forgers:forge", dict[str, Any], dict[str, Any])
MISLEAD: Task[dict[str, Any], Ran] = Task("forgers:mislead", dict[str, Any], Ran)
MISTAKE: Task[dict[str, Any], dict[str, Any]] = Task("forgers:mistake", dict[str, Any], dict[str, Any])


@FORGE.serve
def forge(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    """In a worker: write nested lists without end into its socket."""
    data = b"[" * 200_000
    context._channel._socket.sendall(struct.pack("<I", len(data)) + data)
    return {}


@MISLEAD.serve
def mislead(payload: dict[str, Any], context: Any) -> Ran:
    """In a worker: answer with a field of another type, and name a stage that there is not."""
    context.enter("everything")
    return replace(Ran(Outcome.OK, Stage.RUN), outputs=7)  # type: ignore[arg-type]


@MISTAKE.serve
def mistake(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    """In a worker: raise an exception, as a task with a fault does."""
    raise KeyError("a fault of the task")
