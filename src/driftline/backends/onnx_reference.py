"""The reference evaluator of the ONNX project: plain numpy, operator by operator, nothing optimised.

It is an independent reference rather than a compiler: slow, but not based on any runtime. It lacks some operators, and
follows numpy where the ONNX standard leaves a choice open.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from driftline.backends.base import Backend, Compiled, Options
from driftline.core.script_call import ScriptCall
from driftline.core.tensors import Arrays
from driftline.core.tracker import Tracker
from driftline.programs.onnx.evaluator import make_evaluator
from driftline.programs.opened import OpenedProgram

# "There is no implementation", in the evaluator's own words.
_REJECTIONS = (
    "No registered implementation for operator",
    "is not implemented",
    "not implemented yet",
    "No implementation for operator",
    "Unable to find class",
)


class OnnxReference(Backend):
    name = "onnx-reference"
    start_seconds = 0.8
    preset = "all"
    accepts = ("onnx",)
    module = "onnx"
    distribution = "onnx"
    extra = "onnx"
    reference = True
    arithmetic = "half-accumulation"  # numpy computes every step in the type of its operands

    tracker = Tracker("https://github.com/onnx/onnx/issues")

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        if framework != "onnx":
            return ()
        imports = ("from onnx.reference import ReferenceEvaluator",)
        return [ScriptCall("ReferenceEvaluator(model).run(None, inputs)", imports=imports, packages=("onnx",))]

    def warm(self) -> None:
        import onnx.reference.ops  # noqa: F401

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        evaluator = make_evaluator(program.model())

        def run(arrays: Arrays) -> Arrays:
            feed = {name: arrays[name] for name in evaluator.input_names if name in arrays}
            with np.errstate(all="ignore"):
                results = evaluator.run(None, feed)
            return {name: np.asarray(value) for name, value in zip(evaluator.output_names, results, strict=True)}

        return run

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or any(text in str(error) for text in _REJECTIONS)
