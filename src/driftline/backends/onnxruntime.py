"""ONNX Runtime on the CPU. Optimisation levels, and single optimisers switched off by name."""

from __future__ import annotations

from driftline.backends.base import Backend, Compiled, Option, Options, option
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram

_LEVELS = {
    "off": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}


class OnnxRuntime(Backend):
    name = "onnxruntime"
    accepts = ("onnx",)
    module = "onnxruntime"
    distribution = "onnxruntime"
    options = {
        "opt": Option("graph optimisation level", tuple(_LEVELS), "all"),
        "disable": Option("optimisers to leave out, joined with '+'"),
    }

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import onnxruntime as ort

        ort.set_default_logger_severity(3)
        settings = ort.SessionOptions()
        settings.log_severity_level = 3
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1
        settings.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _LEVELS[option(options, self, "opt")])
        disabled = options["disable"].split("+") if "disable" in options else None
        session = ort.InferenceSession(
            program.data, settings, providers=["CPUExecutionProvider"], disabled_optimizers=disabled
        )
        names = [output.name for output in session.get_outputs()]
        wanted = {value.name for value in session.get_inputs()}

        def run(arrays: Arrays) -> Arrays:
            feed = {name: array for name, array in arrays.items() if name in wanted}
            return dict(zip(names, session.run(names, feed), strict=True))

        return run

    def is_rejection(self, error: BaseException) -> bool:
        text = str(error)
        return (
            super().is_rejection(error)
            or type(error).__name__ in ("NotImplemented", "InvalidGraph")
            or "NOT_IMPLEMENTED" in text
            or "Unsupported model IR version" in text
            or "is under development and support for this is limited" in text
        )
