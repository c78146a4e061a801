"""AOTInductor: torch.export, then Inductor ahead of time into a package, which is loaded and run.

The package is a shared library made by the system's C++ compiler: the first build in a process takes half a minute.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from driftline.backends._export import export, flat_runner, is_export_rejection
from driftline.backends._torch import TorchBackend
from driftline.backends.base import BOOLEAN, Compiled, Option, Options
from driftline.backends.inductor_cache import begin_anew
from driftline.backends.inductor_options import inductor_config, inductor_settings_text
from driftline.backends.inductor_settings import (
    SETTINGS,
    SETTINGS_WORDS,
    check_config_names,
    check_settings_here,
    vector_widths,
)
from driftline.core.processor import Processor
from driftline.core.scratch import scratch_folder
from driftline.core.script_call import ScriptCall
from driftline.programs.opened import OpenedProgram

_SCRIPT = """\
def aotinductor(function, *inputs):
    exported = torch.export.export(function, inputs)
    package = torch._inductor.aoti_compile_and_package(exported{config})
    return torch._inductor.aoti_load_package(package, run_single_threaded=True)(*inputs)
"""


class AotInductor(TorchBackend):
    name = "aotinductor"
    preset = "all"
    family = "inductor"
    captures = True
    keeps_code = True
    rungs = ("eager", "aot_eager", "aot_eager_decomp", "inductor")
    not_hunted = "it compiles like inductor, and takes half a minute for each program"
    gradients = False
    mutates = False
    options = {
        "freezing": Option("fold parameters into constants", BOOLEAN, "false"),
        "pattern_matcher": Option("graph rewrite rules", BOOLEAN, "true"),
        "epilogue_fusion": Option("fuse pointwise operations into templates", BOOLEAN, "true"),
        "constant_folding": Option("joint-graph constant folding", BOOLEAN, "true"),
        "simdlen": Option("vector width in bits; 1 switches vectorisation off", ("1", "128", "256", "512")),
    }

    settings = SETTINGS
    settings_words = SETTINGS_WORDS

    def validate(self, options: Options, target: str) -> None:
        super().validate(options, target)
        check_config_names(self.name, self.options, self.own_settings(options), target)

    def begin_anew(self) -> None:
        begin_anew()

    def check_settings(self, settings: Options) -> None:
        check_settings_here(settings)

    def isa_variants(self, processor: Processor) -> Sequence[Options]:
        return vector_widths(processor)

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        if framework != "torch":
            return ()
        config = inductor_config(options)
        text = _SCRIPT.format(config=f", inductor_configs={config!r}" if config else "")
        return [ScriptCall("aotinductor(function, *inputs)", text, ("import torch._inductor",))]

    def settings_text(self, options: Options) -> str:
        return inductor_settings_text(options)

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        from torch._inductor import aoti_compile_and_package, aoti_load_package

        captured = export(program)
        exported = captured.exported
        config = inductor_config(options)
        package = scratch_folder(f"aotinductor-{secrets.token_hex(8)}") / "program.pt2"
        aoti_compile_and_package(exported, package_path=str(package), inductor_configs=config)
        loaded = aoti_load_package(str(package), run_single_threaded=True)
        if not exported.graph_signature.buffers:
            return flat_runner(captured, loaded)
        # Restore changed buffers, so that one run does not affect the next.
        return flat_runner(
            captured, lambda *tensors: aoti_load_package(str(package), run_single_threaded=True)(*tensors)
        )

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or is_export_rejection(error)
