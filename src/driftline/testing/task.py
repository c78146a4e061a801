"""What the conformance suite asks a worker: does a compiled program leave the arrays alone that it is given?"""

from __future__ import annotations

from typing import Any

from driftline.backends import BACKENDS
from driftline.core.plugins import load_plugins
from driftline.core.tensors import load_tensors
from driftline.programs.opened import OpenedProgram


def changed_arrays(payload: dict[str, Any], context: object) -> dict[str, Any]:
    """The names of input arrays that are not what they were before the run."""
    load_plugins(payload["plugins"])
    backend = BACKENDS.get(payload["backend"])
    arrays = load_tensors(payload["inputs"][0])
    program = OpenedProgram.from_payload(payload, load_tensors(payload["inputs"][0]), lambda stage: None)
    try:
        compiled = backend.compile(program, payload["options"])
        before = {name: array.tobytes() for name, array in arrays.items()}
        compiled(arrays)
    except Exception as error:
        if backend.is_rejection(error):
            return {"rejected": str(error)}
        raise
    return {"changed": [name for name, array in arrays.items() if array.tobytes() != before[name]]}
