"""Open the shadow of an ONNX program that is executed on torch: one run is recorded, as for torch programs."""

from __future__ import annotations

from driftline.core.tensors import Arrays
from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.references.onnx_player_reference import PlayedOnnx
from driftline.oracle.shadow.torch.shadow import TorchShadow, record
from driftline.programs.opened import OpenedProgram


def open_shadow(program: OpenedProgram, arrays: Arrays, arithmetic: Arithmetic) -> TorchShadow:
    """Return the shadow of the program for these inputs. Raises `NoExactReference` if the run cannot be recorded."""
    try:
        played = PlayedOnnx(program)
        tape = record(lambda: played.tensors(arrays))
    except NoExactReference:
        raise
    except Exception as error:
        raise NoExactReference(f"the model cannot be recorded ({type(error).__name__}: {error})") from error
    return TorchShadow(tape, arithmetic)
