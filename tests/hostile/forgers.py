"""Tasks that forge answers and results in a worker, for `test_hostile_answers.py` and others of this folder."""

from __future__ import annotations

import contextlib
import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

from driftline.core.execution import Outcome, Stage
from driftline.core.task import Task
from driftline.execute.requests import Ran

FORGE: Task[dict[str, Any], dict[str, Any]] = Task("forgers:forge", dict[str, Any], dict[str, Any])
MISLEAD: Task[dict[str, Any], Ran] = Task("forgers:mislead", dict[str, Any], Ran)
MISTAKE: Task[dict[str, Any], dict[str, Any]] = Task("forgers:mistake", dict[str, Any], dict[str, Any])
OVERWRITE: Task[dict[str, Any], dict[str, Any]] = Task("forgers:overwrite", dict[str, Any], dict[str, Any])


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


@OVERWRITE.serve
def overwrite(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    """In a worker: overwrite every file below a folder of the run, wherever that may be."""
    top = Path(payload["folder"])
    with contextlib.suppress(OSError):
        top.chmod(0o700)
    written = []
    for place, _, names in os.walk(top):
        for name in names:
            with contextlib.suppress(OSError):
                (Path(place) / name).write_text("forged")
                written.append(name)
    return {"written": written}
