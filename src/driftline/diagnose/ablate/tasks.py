"""The worker task that lists the rules and passes of a target that change a program."""

from __future__ import annotations

from dataclasses import dataclass

from driftline.backends import BACKENDS
from driftline.backends.knobs import Knob
from driftline.core.plugins import load_plugins
from driftline.core.task import Context, Task
from driftline.core.tensors import load_tensors
from driftline.execute.requests import RunRequest
from driftline.programs.opened import OpenedProgram


@dataclass(frozen=True)
class AtWork:
    knobs: tuple[Knob, ...]


AT_WORK = Task("driftline.diagnose.ablate.tasks:at_work", RunRequest, AtWork)


@AT_WORK.serve
def at_work(request: RunRequest, context: Context) -> AtWork:
    load_plugins(request.case.plugins)
    program = OpenedProgram.of(request.case, load_tensors(request.case.inputs[0]))
    return AtWork(tuple(BACKENDS.get(request.backend).knobs_at_work(program, request.options)))
