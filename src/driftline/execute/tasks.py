"""What workers are asked to do: probe a backend, or run a program on it.

A task turns everything a compiler does into a plain dict. Tensors stay in files.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from driftline.backends import BACKENDS
from driftline.backends.base import Backend
from driftline.core.execution import Failure, Outcome, Stage
from driftline.core.plugins import load_plugins
from driftline.core.tensors import load_tensors, save_tensors
from driftline.execute.worker import Context
from driftline.programs.opened import OpenedProgram, ProgramChanged


def probe(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """Is this backend usable here?"""
    load_plugins(payload["plugins"])
    found = BACKENDS.get(payload["backend"]).probe()
    return {
        "available": found.available,
        "version": found.version,
        "devices": list(found.devices),
        "reason": found.reason,
    }


def run(payload: dict[str, Any], context: Context) -> dict[str, Any]:
    """Compile a program once and run it on every input sample."""
    load_plugins(payload["plugins"])
    backend = BACKENDS.get(payload["backend"])
    samples = [load_tensors(path) for path in payload["inputs"]]
    stage = _StageClock(context)
    answer: dict[str, Any] = {"version": backend.version(), "outputs": []}
    program = OpenedProgram.from_payload(payload, samples[0], stage.enter)
    try:
        stage.enter(Stage.COMPILE)
        compiled = backend.compile(program, payload["options"])
        stage.enter(Stage.RUN)
        for index, arrays in enumerate(samples):
            program.reseed()
            path = Path(payload["folder"]) / f"{index}.safetensors"
            save_tensors(path, compiled(arrays))
            answer["outputs"].append(str(path))
        answer["outcome"] = Outcome.OK
    except MemoryError:
        answer["outcome"] = Outcome.OOM
    except ProgramChanged as error:
        answer["outcome"] = Outcome.ERROR
        answer["problem"] = str(error)
    except Exception as error:
        answer["outcome"] = _classify(backend, error)
        answer["failure"] = Failure.of(error).to_json()
    answer["stage"] = stage.current
    answer["durations"] = stage.finish()
    return answer


def _classify(backend: Backend, error: Exception) -> Outcome:
    if backend.is_rejection(error):
        return Outcome.REJECTED
    if "bad_alloc" in str(error) or "DefaultCPUAllocator: can't allocate" in str(error):
        return Outcome.OOM
    return Outcome.ERROR


class _StageClock:
    """Announces stages to the parent and adds up the time spent in each."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._durations: dict[str, float] = {}
        self._since = time.perf_counter()
        self.current = Stage.COMPILE

    def enter(self, stage: str) -> None:
        self._settle()
        self.current = Stage(stage)
        self._context.enter(stage)

    def _settle(self) -> None:
        now = time.perf_counter()
        key = self.current.lower()
        self._durations[key] = self._durations.get(key, 0.0) + now - self._since
        self._since = now

    def finish(self) -> dict[str, float]:
        self._settle()
        return self._durations
