"""torch programs: eager, without compiling what a program compiles itself. Their float64 run is the shadow's
(`oracle/shadow`).

Without oneDNN: a library of optimised kernels is what compilers are made of too, and where it is wrong, all that use it
agree. torch 2.13 gives half of the elements of a bfloat16 convolution, and old memory for the rest, where the kernel is
one row of four and the stride (1, 3).
"""

from __future__ import annotations

import sys

import torch

from driftline.backends._torch import TorchRunner
from driftline.core.execution import Failure
from driftline.core.tensors import Arrays
from driftline.oracle.shadow.torch.higher_order import call_forced, operators_of_eager, plain_operators
from driftline.programs.opened import OpenedProgram


class TorchReference:
    def __init__(self, program: OpenedProgram) -> None:
        self._program = program
        self._native = TorchRunner(program, program.live.function)
        self._called_as_eager = False
        self.refusal: Failure | None = None

    def native(self, arrays: Arrays) -> Arrays:
        with plain_operators() as plain:
            try:
                result = call_forced(lambda: self._called(arrays))
            except Exception:
                if "torch._dynamo" not in sys.modules:
                    raise
                result = None
        if result is None:
            return self._called(arrays)  # some operators have gradients only when they are compiled
        if plain.called and not self._called_as_eager:
            self._call_as_eager(arrays)
        return result

    def _call_as_eager(self, arrays: Arrays) -> None:
        """Find out whether eager torch, which compiles operators like `torch.cond`, raises where their plain meaning
        has a result."""
        self._called_as_eager = True
        try:
            with operators_of_eager():
                self._called(arrays)
        except MemoryError:
            raise
        except Exception as error:
            self.refusal = Failure.of(error)

    def _called(self, arrays: Arrays) -> Arrays:
        self._program.reseed()
        with torch.backends.mkldnn.flags(enabled=False):
            return self._native(arrays)
