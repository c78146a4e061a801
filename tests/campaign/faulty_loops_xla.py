"""A compiler for tests: XLA, but what comes out of the exponential function inside a loop is one too large."""

from __future__ import annotations

from driftline.backends import register_backend
from driftline.backends.base import Compiled, Options
from driftline.backends.xla import Xla
from driftline.core.tensors import Arrays, is_float
from driftline.programs.opened import OpenedProgram


@register_backend
class FaultyLoopsXla(Xla):
    name = "faulty-loops-xla"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        honest = super().compile(program, options)
        text = program.path.read_text()
        if "lax.scan(" not in text or "jnp.exp(" not in text:
            return honest

        def run(arrays: Arrays) -> Arrays:
            return {name: array + 1 if is_float(array.dtype.name) else array for name, array in honest(arrays).items()}

        return run
