"""The reference evaluator of the ONNX project, with what is wrong in it set right: it is a witness here."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def make_evaluator(model: Any, kind: Any = None) -> Any:
    """An evaluator of a loaded model; `kind` is a class derived from `ReferenceEvaluator`."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class Erf(OpRun):
        """The evaluator's own goes through float32 in every dtype, which no float64 result survives."""

        op_domain = ""

        def _run(self, x: Any) -> tuple[Any]:
            return (np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype),)

    return (kind or ReferenceEvaluator)(model, new_ops=[Erf])
