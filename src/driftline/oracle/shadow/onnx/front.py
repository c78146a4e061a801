"""Open the shadow of an ONNX program in the evaluator of the ONNX project."""

from __future__ import annotations

from driftline.core.tensors import Arrays
from driftline.oracle.arithmetic import Arithmetic
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.shadow.onnx.shadow import OnnxShadow
from driftline.programs.opened import OpenedProgram


def open_shadow(program: OpenedProgram, arrays: Arrays, arithmetic: Arithmetic) -> OnnxShadow:
    """Return the shadow of the program for these inputs. Raises `NoExactReference` if the model cannot be opened in
    float64."""
    try:
        return OnnxShadow(program.model(), arrays, arithmetic)
    except NoExactReference:
        raise
    except Exception as error:
        raise NoExactReference(f"the model cannot be opened in float64 ({type(error).__name__}: {error})") from error
