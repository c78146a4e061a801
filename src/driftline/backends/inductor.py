"""TorchInductor, through `torch.compile`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from driftline.backends._dynamo import compile_together_with_dynamo, compile_with_dynamo
from driftline.backends._torch import TorchBackend
from driftline.backends.base import BOOLEAN, Availability, Compiled, CompiledTogether, Option, Options
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram

# target option -> Inductor configuration key
_CONFIG = {
    "freezing": "freezing",
    "pattern_matcher": "pattern_matcher",
    "epilogue_fusion": "epilogue_fusion",
    "constant_folding": "joint_graph_constant_folding",
    "max_autotune": "max_autotune",
    "layout": "layout_optimization",
    "simdlen": "cpp.simdlen",
    "fusion_size": "max_fusion_size",
    "shape_padding": "shape_padding",
    "inject_relu_bug": "cpp.inject_relu_bug_TESTING_ONLY",
}


class Inductor(TorchBackend):
    name = "inductor"
    family = "inductor"
    devices = ("cpu", "cuda")
    together = 10
    options = {
        "freezing": Option("fold parameters into constants", BOOLEAN, "false"),
        "pattern_matcher": Option("graph rewrite rules", BOOLEAN, "true"),
        "epilogue_fusion": Option("fuse pointwise operations into templates", BOOLEAN, "true"),
        "constant_folding": Option("joint-graph constant folding", BOOLEAN, "true"),
        "max_autotune": Option("search for the fastest kernels", BOOLEAN, "false"),
        "layout": Option("layout optimisation of convolutions", BOOLEAN, "true"),
        "simdlen": Option("vector width in bits; 1 switches vectorisation off", ("1", "256", "512")),
        "fusion_size": Option("largest number of nodes in one kernel", ("1", "8", "64")),
        "shape_padding": Option("pad matrix shapes", BOOLEAN, "true"),
        "dynamic": Option("symbolic shapes", BOOLEAN, "false"),
        "inject_relu_bug": Option("Inductor's own planted bug", ("accuracy", "compile_error", "runtime_error")),
    }

    def warm(self) -> None:
        import torch

        _keep_headers()
        # The first compilation in a process takes seconds; paid here, every forked worker is spared it.
        with torch.no_grad():
            torch.compile(lambda x: (x.sin() + 1).sum(-1))(torch.ones(2, 8))
        torch._dynamo.reset()

    def probe(self) -> Availability:
        """Import torch and look for the C++ compiler, without compiling anything."""
        found = super().installed()
        if not found.available:
            return found
        from torch._inductor.cpp_builder import get_cpp_compiler

        try:
            get_cpp_compiler()
        except Exception as error:
            reason = f"it finds no C++ compiler ({type(error).__name__}); install g++"
            return Availability(False, found.version, (), reason)
        return Availability(True, self.version(), self.find_devices())

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import torch
        import torch._inductor.config

        config, dynamic = _settings(options)
        # Some settings (freezing) are read while Dynamo traces, which `options` do not reach; later recompilations see
        # the `options` alone.
        with torch._inductor.config.patch(config):
            return compile_with_dynamo(
                program, "inductor", options.get("device", "cpu"), options=config or None, dynamic=dynamic
            )

    def compile_together(self, programs: Sequence[OpenedProgram], options: Options) -> CompiledTogether | None:
        import torch._inductor.config

        if options.get("device", "cpu") != "cpu" or any(program.grad for program in programs):
            return None
        config, dynamic = _settings(options)
        run = compile_together_with_dynamo(programs, "inductor", options=config or None, dynamic=dynamic)

        def patched(samples: Sequence[Arrays]) -> list[Arrays]:
            with torch._inductor.config.patch(config):  # it compiles on the first call
                return run(samples)

        return patched


def _settings(options: Options) -> tuple[dict[str, object], bool | None]:
    config = {_CONFIG[key]: _value(text) for key, text in options.items() if key in _CONFIG}
    return config, {"true": True, "false": False}.get(options.get("dynamic", ""))


def _keep_headers() -> None:
    """Precompiled C++ headers go to the temporary folder, wherever the cache is: half a minute in each run. Not so."""
    from torch._inductor import codecache

    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if cache and hasattr(codecache, "_HEADER_DIR"):
        codecache._HEADER_DIR = os.path.join(cache, "precompiled_headers")
        codecache._HEADER_LOCK_DIR = os.path.join(cache, "precompiled_headers", "locks")


def _value(text: str) -> object:
    if text in BOOLEAN:
        return text == "true"
    return int(text) if text.isdigit() else text
