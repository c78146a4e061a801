"""The reference of ONNX models: the ONNX project's reference evaluator. The shadow (`oracle/shadow`) computes in
float64."""

from __future__ import annotations

import numpy as np

from driftline.core.tensors import Arrays
from driftline.programs.onnx.evaluator import make_evaluator
from driftline.programs.opened import OpenedProgram


class OnnxEvaluatorReference:
    """Runs a model in the reference evaluator of the ONNX project."""

    def __init__(self, program: OpenedProgram) -> None:
        self._evaluator = make_evaluator(program.model())

    def native(self, arrays: Arrays) -> Arrays:
        """Run the model in its own dtypes."""
        feed = {name: arrays[name] for name in self._evaluator.input_names if name in arrays}
        with np.errstate(all="ignore"):
            results = self._evaluator.run(None, feed)
        return {n: np.asarray(value) for n, value in zip(self._evaluator.output_names, results, strict=True)}
