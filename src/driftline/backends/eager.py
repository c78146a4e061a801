"""PyTorch eager: the rung that gives torch programs their meaning."""

from __future__ import annotations

from driftline.backends._torch import TorchBackend, placed, torch_runner
from driftline.backends.base import Compiled, Options
from driftline.programs.opened import OpenedProgram


class Eager(TorchBackend):
    name = "eager"
    preset = "quick"
    devices = ("cpu", "cuda")
    reference = True

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        return torch_runner(program, *placed(program.live.function, options))
