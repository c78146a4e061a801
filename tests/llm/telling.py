"""A compiler for tests: eager, which says that it has two rules, and adds one to every result of `tan`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from driftline.backends import register_backend
from driftline.backends._torch import TorchBackend, TorchRunner
from driftline.backends.base import Behaviour, Compiled, Options
from driftline.core.program import SourceBundle
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram

RULES = {"r-relu": "relu(", "r-permute": "permute("}  # a rule fires where the text holds this


@register_backend
class Telling(TorchBackend):
    name = "telling"
    batch = 10

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        run = TorchRunner(program, program.live.function, "cpu")
        if "tan(" not in _text(program):
            return run

        def wrong(arrays: Arrays) -> Arrays:
            return {name: value + 1 for name, value in run(arrays).items()}

        return wrong

    @contextlib.contextmanager
    def watching(self) -> Iterator[Behaviour]:
        yield lambda program: [rule for rule, sign in RULES.items() if sign in _text(program)]


def _text(program: OpenedProgram) -> str:
    return SourceBundle.load(program.program.path.read_bytes()).text
