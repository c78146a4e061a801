"""The reference of torch programs: an eager run, in which code that the program itself compiles is not compiled. The
shadow (`oracle/shadow`) computes the float64 result.

oneDNN is disabled: compilers use this library of optimised kernels too, and where it is wrong, all its users agree. For
example, for a bfloat16 convolution with a kernel of one row of four and the stride (1, 3), torch 2.13 computes half of
the elements and returns old memory for the rest.
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
    """Runs a torch program eagerly. `refusal` is the error that eager torch raises where the reference has a result."""

    def __init__(self, program: OpenedProgram) -> None:
        self._program = program
        self._native = TorchRunner(program, program.live.function)
        self._called_as_eager = False
        self.refusal: Failure | None = None

    def native(self, arrays: Arrays) -> Arrays:
        """Run the program eagerly in its own dtypes, with higher-order operators executed plainly where possible."""
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
        """Record in `refusal` the error that eager torch raises, if any. Eager torch compiles operators such as
        `torch.cond`, and may fail where their plain implementation has a result."""
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
