"""torch programs: eager. Their float64 run is the shadow's (`oracle/shadow`)."""

from __future__ import annotations

from driftline.backends._torch import torch_runner
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram


class TorchReference:
    def __init__(self, program: OpenedProgram) -> None:
        self._program = program
        self._native = torch_runner(program, program.live.function)

    def native(self, arrays: Arrays) -> Arrays:
        self._program.reseed()
        return self._native(arrays)
