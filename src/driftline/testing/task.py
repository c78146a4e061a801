"""The conformance suite's task for a worker: check that a compiled program leaves its input arrays unchanged."""

from __future__ import annotations

from dataclasses import dataclass

from driftline.backends import BACKENDS
from driftline.core.plugins import load_plugins
from driftline.core.task import Context, Task
from driftline.core.tensors import load_tensors
from driftline.execute.requests import RunRequest
from driftline.programs.opened import OpenedProgram


@dataclass(frozen=True)
class ChangedArrays:
    """The names of the input arrays that a run changed."""

    changed: tuple[str, ...] = ()
    rejected: str = ""  # why the backend does not take the program


CHANGED_ARRAYS = Task("driftline.testing.task:changed_arrays", RunRequest, ChangedArrays)


@CHANGED_ARRAYS.serve
def changed_arrays(request: RunRequest, context: Context) -> ChangedArrays:
    load_plugins(request.case.plugins)
    backend = BACKENDS.get(request.backend)
    arrays = load_tensors(request.case.inputs[0])
    program = OpenedProgram.of(request.case, load_tensors(request.case.inputs[0]))
    try:
        compiled = backend.compile(program, request.options)
        before = {name: array.tobytes() for name, array in arrays.items()}
        compiled(arrays)
    except Exception as error:
        if backend.is_rejection(error):
            return ChangedArrays(rejected=str(error) or type(error).__name__)
        raise
    return ChangedArrays(tuple(name for name, array in arrays.items() if array.tobytes() != before[name]))
