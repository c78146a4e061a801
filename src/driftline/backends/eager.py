"""PyTorch eager: the rung that gives torch programs their meaning."""

from __future__ import annotations

from driftline.backends._torch import TorchBackend, torch_runner
from driftline.backends.base import Compiled, Options
from driftline.programs.opened import OpenedProgram


class Eager(TorchBackend):
    name = "eager"
    devices = ("cpu", "cuda")
    reference = True

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        device = options.get("device", "cpu")
        function = program.live.function
        if device != "cpu" and hasattr(function, "to"):
            function = function.to(device)
        return torch_runner(program, function, device)
