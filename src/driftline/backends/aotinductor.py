"""AOTInductor: torch.export, then Inductor ahead of time into a package, which is loaded and run.

The package is a shared library made by the system's C++ compiler: the first build in a process takes half a minute.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from driftline.backends._export import export, flat_runner, is_export_rejection
from driftline.backends._torch import TorchBackend
from driftline.backends.base import BOOLEAN, Compiled, Option, Options
from driftline.programs.opened import OpenedProgram

# target option -> Inductor configuration key
_CONFIG = {
    "freezing": "freezing",
    "pattern_matcher": "pattern_matcher",
    "epilogue_fusion": "epilogue_fusion",
    "constant_folding": "joint_graph_constant_folding",
    "simdlen": "cpp.simdlen",
}


class AotInductor(TorchBackend):
    name = "aotinductor"
    preset = "all"
    family = "inductor"
    gradients = False
    mutates = False
    options = {
        "freezing": Option("fold parameters into constants", BOOLEAN, "false"),
        "pattern_matcher": Option("graph rewrite rules", BOOLEAN, "true"),
        "epilogue_fusion": Option("fuse pointwise operations into templates", BOOLEAN, "true"),
        "constant_folding": Option("joint-graph constant folding", BOOLEAN, "true"),
        "simdlen": Option("vector width in bits; 1 switches vectorisation off", ("1", "256", "512")),
    }

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        from torch._inductor import aoti_compile_and_package, aoti_load_package

        exported, flat = export(program)
        config = {_CONFIG[key]: _value(text) for key, text in options.items() if key in _CONFIG}
        package = Path(tempfile.mkdtemp(prefix="aotinductor-")) / "program.pt2"
        aoti_compile_and_package(exported, package_path=str(package), inductor_configs=config)
        loaded = aoti_load_package(str(package), run_single_threaded=True)
        if not exported.graph_signature.buffers:
            return flat_runner(flat, loaded)
        # Buffers may change: what one run leaves in them must not reach the next.
        return flat_runner(flat, lambda *tensors: aoti_load_package(str(package), run_single_threaded=True)(*tensors))

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or is_export_rejection(error)


def _value(text: str) -> object:
    return text == "true" if text in BOOLEAN else int(text)
