"""What a worker of the target is asked: which of its rules and passes do something to a program."""

from __future__ import annotations

from typing import Any

from driftline.backends import BACKENDS
from driftline.core.plugins import load_plugins
from driftline.core.tensors import load_tensors
from driftline.programs.opened import OpenedProgram


def at_work(payload: dict[str, Any], context: object) -> dict[str, Any]:
    load_plugins(payload["plugins"])
    program = OpenedProgram.from_payload(payload, load_tensors(payload["inputs"][0]), lambda stage: None)
    knobs = BACKENDS.get(payload["backend"]).knobs_at_work(program, payload["options"])
    return {"knobs": [knob.to_json() for knob in knobs]}
