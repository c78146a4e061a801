"""Compilers of torch programs that draw random numbers with a generator of their own, with `own=true`; some badly."""

from __future__ import annotations

import numpy as np

from driftline import register_backend
from driftline.backends.aot_eager import AotEager
from driftline.backends.base import BOOLEAN, Compiled, Option, Options
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram


class OwnGenerator(AotEager):
    family = "eager"
    own_random = {"own": "true"}
    options = {"own": Option("draw with the generator of the compiler", BOOLEAN, "false")}

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest = super().compile(program, {})
        return self.drawn(program, honest) if self.draws_alone(options) else honest

    def drawn(self, program: OpenedProgram, honest: Compiled) -> Compiled:
        import torch

        def run(arrays: Arrays) -> Arrays:
            torch.manual_seed(torch.randint(1 << 40, ()) ^ 77)  # other numbers than eager's, as random as they are
            return honest(arrays)

        return run


@register_backend
class SoundGenerator(OwnGenerator):
    name = "sound-generator"


@register_backend
class MergedDraws(OwnGenerator):
    """All outputs are the first draw."""

    name = "merged-draws"

    def drawn(self, program: OpenedProgram, honest: Compiled) -> Compiled:
        sound = super().drawn(program, honest)

        def run(arrays: Arrays) -> Arrays:
            outputs = sound(arrays)
            first = next(iter(outputs.values()))
            return {name: np.array(first) for name in outputs}

        return run


@register_backend
class SeedIgnored(OwnGenerator):
    """The numbers do not follow from the seed."""

    name = "seed-ignored"

    def drawn(self, program: OpenedProgram, honest: Compiled) -> Compiled:
        import torch

        def run(arrays: Arrays) -> Arrays:
            torch.seed()
            return honest(arrays)

        return run
