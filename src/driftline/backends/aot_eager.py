"""The rungs between eager and Inductor: AOTAutograd alone, and AOTAutograd with Inductor's decompositions."""

from __future__ import annotations

from driftline.backends._dynamo import compile_with_dynamo
from driftline.backends._torch import TorchBackend
from driftline.backends.base import Compiled, Options
from driftline.programs.opened import OpenedProgram


class AotEager(TorchBackend):
    name = "aot_eager"
    preset = "all"
    devices = ("cpu", "cuda")
    batch = 60

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        return compile_with_dynamo(program, "aot_eager", options)


class AotEagerDecomp(TorchBackend):
    name = "aot_eager_decomp"
    devices = ("cpu", "cuda")

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        return compile_with_dynamo(program, "aot_eager_decomp_partition", options)
