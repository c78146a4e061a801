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
from driftline.core.tensors import Arrays
from driftline.oracle.shadow.torch.higher_order import call_uncompiled
from driftline.programs.opened import OpenedProgram


class TorchReference:
    def __init__(self, program: OpenedProgram) -> None:
        self._program = program
        self._native = TorchRunner(program, program.live.function)

    def native(self, arrays: Arrays) -> Arrays:
        try:
            return call_uncompiled(lambda: self._called(arrays))
        except Exception:
            if "torch._dynamo" not in sys.modules:
                raise
            return self._called(arrays)  # some operators have gradients only when they are compiled

    def _called(self, arrays: Arrays) -> Arrays:
        self._program.reseed()
        with torch.backends.mkldnn.flags(enabled=False):
            return self._native(arrays)
