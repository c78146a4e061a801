"""Apache TVM through Relax, compiled with LLVM for this processor.

Traps: generated code checks nothing, so a Gather out of range is a SIGSEGV and an integer division by zero a SIGFPE.
The importer needs the `onnx` package and fixes every shape from the example inputs.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from driftline.backends.base import Backend, Compiled, Option, Options, option
from driftline.core.tensors import Array, Arrays
from driftline.programs.opened import OpenedProgram

# The importer has no single wording for what it does not do; above all it wants shapes, axes and counts as constants.
_REJECTIONS = re.compile(
    "not supported|not yet supported|currently supported|unsupported|not implemented|must be a constant|"
    "cannot handle ShapeExpr|requires the input new shape to be Shape|Missing outputs during conversion|"
    "only applies to float|only support |param datatype should be one of"
)


class Tvm(Backend):
    name = "tvm"
    sizes = False  # compiled for the sizes of its example
    batch = 30
    accepts = ("onnx",)
    module = "tvm"
    distribution = "apache-tvm"
    options = {"opt": Option("optimisation level", ("0", "1", "2", "3"), "3")}

    def warm(self) -> None:
        import tvm.relax.frontend.onnx  # noqa: F401

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import onnx
        import tvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        model = onnx.load_model_from_string(program.data)
        constants = {tensor.name for tensor in model.graph.initializer}
        inputs = [value.name for value in model.graph.input if value.name not in constants]
        outputs = [value.name for value in model.graph.output]
        shapes = {name: list(program.example[name].shape) for name in inputs}
        dtypes = {name: program.example[name].dtype.name for name in inputs}
        with tvm.transform.PassContext(opt_level=int(option(options, self, "opt"))):
            module = from_onnx(model, shape_dict=shapes, dtype_dict=dtypes)
            executable = tvm.compile(module, target="llvm")
        machine = relax.VirtualMachine(executable, tvm.cpu())

        def run(arrays: Arrays) -> Arrays:
            result = machine["main"](*(tvm.runtime.tensor(np.asarray(arrays[name], order="C")) for name in inputs))
            results = [result] if len(outputs) == 1 else list(result)
            return {name: _to_array(value) for name, value in zip(outputs, results, strict=True)}

        return run

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or bool(_REJECTIONS.search(str(error)))


def _to_array(value: Any) -> Array:
    """What a model computes from shapes alone comes back as a tuple of integers, not as a tensor."""
    return value.numpy() if hasattr(value, "numpy") else np.array(tuple(value), np.int64)
