"""OpenVINO on the CPU, reading ONNX.

Traps: without `INFERENCE_PRECISION_HINT=f32` it computes in bfloat16 wherever the processor can, with errors of 2e-3
everywhere. It narrows int64 to int32 and computes float64 in float32 without a word; both are results that a user sees,
so they are compared like any other. Importing it sends an event to its maker, from a thread.
"""

from __future__ import annotations

import sys

import numpy as np

from driftline.backends.base import Backend, Compiled, Options
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram

_REJECTIONS = (
    "OpenVINO does not support the following ONNX operations",
    "Not supported ONNX op",
    "not supported",
    "unsupported",
    "Unsupported",
    "is not implemented",
)


class OpenVino(Backend):
    name = "openvino"
    accepts = ("onnx",)
    module = "openvino"
    distribution = "openvino"

    def warm(self) -> None:
        forbid_telemetry()
        super().warm()

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        forbid_telemetry()
        import openvino

        core = openvino.Core()
        model = core.read_model(program.data, b"")
        compiled = core.compile_model(model, "CPU", CONFIG)
        request = compiled.create_infer_request()
        # A port may carry several names, or lose its own when it is an input too: the order of outputs is what holds.
        names = list(program.program.outputs)
        if len(names) != len(compiled.outputs):
            names = [port.get_any_name() for port in compiled.outputs]

        def run(arrays: Arrays) -> Arrays:
            feed = {}
            for index, port in enumerate(compiled.inputs):
                (name,) = port.get_names() & set(arrays)
                feed[index] = openvino.Tensor(np.ascontiguousarray(arrays[name]))
            request.infer(feed)
            return {name: np.array(request.get_output_tensor(i).data) for i, name in enumerate(names)}

        return run

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or any(text in str(error) for text in _REJECTIONS)


# What makes results exact and repeatable; `dynamo:openvino` is given the same.
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}


def forbid_telemetry() -> None:
    """OpenVINO does without its telemetry package when that cannot be imported; the thread it starts is unsafe to fork."""
    if "openvino" not in sys.modules:
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
