"""Open the shadow of a torch program by recording one run."""

from __future__ import annotations

from typing import Any

import torch

from driftline.backends._torch import TorchRunner
from driftline.core.tensors import Arrays
from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.shadow.torch.shadow import TorchShadow, record
from driftline.programs.opened import OpenedProgram


def open_shadow(program: OpenedProgram, arrays: Arrays, arithmetic: Arithmetic) -> TorchShadow:
    """Return the shadow of the program for these inputs. Raises `NoExactReference` if the run cannot be recorded."""
    run = TorchRunner(program, program.live.function).tensors

    def outputs() -> dict[str, Any]:
        program.reseed()
        return {name: value for name, value in run(arrays).items() if isinstance(value, torch.Tensor)}

    try:
        tape = record(outputs)
    except NoExactReference:
        raise
    except Exception as error:
        raise NoExactReference(f"the program cannot be recorded ({type(error).__name__}: {error})") from error
    return TorchShadow(tape, arithmetic)
