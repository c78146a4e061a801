"""PyTorch eager: the target that defines the meaning of torch programs."""

from __future__ import annotations

from collections.abc import Sequence

from driftline.backends._torch import TorchBackend, TorchRunner, placed
from driftline.backends.base import Compiled, Options
from driftline.core.script_call import ScriptCall
from driftline.programs.opened import OpenedProgram


class Eager(TorchBackend):
    name = "eager"
    start_seconds = 4.2
    threads = True
    preset = "quick"
    devices = ("cpu", "cuda")
    reference = True

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        if framework != "torch":
            return ()
        # On a GPU the same function is run there; on the processor it is taken apart by Dynamo at least.
        on_gpu = options.get("device", "cpu") != "cpu"
        return [ScriptCall("function" if on_gpu else 'torch.compile(function, backend="eager")')]

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        return TorchRunner(program, *placed(program.live.function, options))
