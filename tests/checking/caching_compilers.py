"""A compiler that keeps what it compiled on disk, and takes any file there for whole. A plugin file."""

from __future__ import annotations

import os
from pathlib import Path

from driftline.backends import register_backend
from driftline.backends._torch import TorchBackend, TorchRunner
from driftline.backends.base import Compiled, Options
from driftline.programs.opened import OpenedProgram

SOUND = "sound"
LEFT = "DRIFTLINE_TEST_LEFT"  # what a killed process left of the entry


@register_backend
class KeepsCode(TorchBackend):
    name = "keeps-code"
    keeps_code = True

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        entry = Path(os.environ["TRITON_CACHE_DIR"]) / "kept-by-a-test.py"
        entry.parent.mkdir(parents=True, exist_ok=True)
        was_cut = entry.with_name("was-cut-by-a-test")
        if LEFT in os.environ and entry.parent.parent.name == "compilers" and not was_cut.exists():
            was_cut.write_text("as if an earlier process had been killed")
            entry.write_text(os.environ[LEFT])
        if not entry.exists():
            entry.write_text(SOUND)
        if entry.read_text() != SOUND:
            raise ImportError(f"{entry.name}: file too short")
        return TorchRunner(program, program.live.function)


@register_backend
class AlwaysFails(KeepsCode):
    name = "always-fails"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        if all(array.size < 100 for array in program.example.values()):  # a target that fails there too is broken
            return TorchRunner(program, program.live.function)
        raise RuntimeError("no such kernel")
