"""Compilers built on AOTAutograd that are right in a first call without gradients, and wrong beyond that."""

from __future__ import annotations

from driftline import register_backend
from driftline.backends.aot_eager import AotEager
from driftline.backends.base import Compiled, Options
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram


class Forgetful(AotEager):
    family = "eager"


def _doubled(arrays: Arrays, start: str = "output") -> Arrays:
    return {name: array * 2 if name.startswith(start) else array for name, array in arrays.items()}


@register_backend
class KeepsFirstSize(Forgetful):
    """Once a program was called, results for other sizes are twice what they should be."""

    name = "keeps-first-size"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest, first = super().compile(program, options), {}

        def run(arrays: Arrays) -> Arrays:
            shapes = [array.shape for array in arrays.values()]
            right = honest(arrays)
            return right if first.setdefault("shapes", shapes) == shapes else _doubled(right)

        return run


@register_backend
class WrongForThreeRows(Forgetful):
    """Results for three rows are twice what they should be, in whichever call."""

    name = "wrong-for-three-rows"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest = super().compile(program, options)

        def run(arrays: Arrays) -> Arrays:
            right = honest(arrays)
            return _doubled(right) if any(array.shape[:1] == (3,) for array in arrays.values()) else right

        return run


@register_backend
class WrongGradient(Forgetful):
    """Gradients are twice what they should be."""

    name = "wrong-gradient"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest = super().compile(program, options)
        return lambda arrays: _doubled(honest(arrays), "grad:")
