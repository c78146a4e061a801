"""Two targets between eager and Inductor: AOTAutograd alone, and AOTAutograd with Inductor's decompositions."""

from __future__ import annotations

from collections.abc import Sequence

from driftline.backends._dynamo import compile_with_dynamo, dynamo_script_calls
from driftline.backends._torch import TorchBackend
from driftline.backends.base import Compiled, Options
from driftline.core.script_call import ScriptCall
from driftline.programs.opened import OpenedProgram


class AotEager(TorchBackend):
    name = "aot_eager"
    preset = "all"
    devices = ("cpu", "cuda")
    recompiles = True
    batch = 60
    not_hunted = "aot_eager_decomp does the same and more"

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        return dynamo_script_calls("aot_eager", framework)

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        return compile_with_dynamo(program, "aot_eager", options)


class AotEagerDecomp(TorchBackend):
    name = "aot_eager_decomp"
    devices = ("cpu", "cuda")
    recompiles = True

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        return dynamo_script_calls("aot_eager_decomp_partition", framework)

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        return compile_with_dynamo(program, "aot_eager_decomp_partition", options)
