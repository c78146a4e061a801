"""ExecuTorch: torch.export, the edge dialect, and its runtime with portable kernels or XNNPACK.

The import takes seconds and prints a lot; it happens once, before workers are forked. The runtime raises bare error
codes and writes the reason to stderr, where the backend reads it. A loaded method refers to the program it was loaded
from without keeping it alive.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from driftline.backends._export import export, flat_runner, is_export_rejection
from driftline.backends.base import Backend, Compiled, Option, Options, option
from driftline.core.script_call import ScriptCall
from driftline.core.tracker import Tracker
from driftline.programs.opened import OpenedProgram

_REJECTION_TEXTS = (
    "is not in Core ATen opset",
    "taking Tensor inputs with mismatched dtypes",
    "not supported",  # "0 in strides is not supported for ExecuTorch", "onesided=False is not supported yet in ..."
    "Missing operator:",
    "Missing out variants:",  # of an operator that its decompositions leave over
    "Unhandled dtype",
    "Unsupported",
    "Expect input tensor to be 3-D or 4-D",  # a convolution over three axes has no kernel
)
_LOG_LINE = re.compile(r"^\[[\w.]+:\d+\] (.*(?:Check failed|Missing operator:|Unhandled dtype|not supported).*)$", re.M)


_SCRIPT = """\
def executorch(function, *inputs):
    lowered = to_edge_transform_and_lower(torch.export.export(function, inputs){partitioner})
    program = Runtime.get().load_program(lowered.to_executorch().buffer)
    method = program.load_method("forward")
    return [tensor.clone() for tensor in method.execute(inputs)]
"""
_PARTITIONER = "from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner"


class ExecuTorch(Backend):
    name = "executorch"
    start_seconds = 6.0  # not measured: torch, and more
    sizes = False  # compiled for the sizes of its example
    batch = 10
    captures = True
    accepts = ("source:torch", "torch")
    module = "executorch"
    distribution = "executorch"
    extra = "executorch"
    tracker = Tracker("https://github.com/pytorch/executorch/issues")
    rungs = ("eager",)
    options = {"delegate": Option("what runs the operators that it can", ("portable", "xnnpack"), "portable")}

    def plainest(self, options: Options) -> Options:
        return {"delegate": "portable"}

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        if framework != "torch":
            return ()
        imports = ["from executorch.exir import to_edge_transform_and_lower", "from executorch.runtime import Runtime"]
        delegated = option(options, self, "delegate") == "xnnpack"
        if delegated:
            imports.append(_PARTITIONER)
        text = _SCRIPT.format(partitioner=", partitioner=[XnnpackPartitioner()]" if delegated else "")
        call = "executorch(function, *inputs)"
        return [ScriptCall(call, text, tuple(imports), ("executorch",), tensors=True)]

    def warm(self) -> None:
        import executorch.backends.xnnpack.partition.xnnpack_partitioner
        import executorch.exir
        import executorch.runtime  # noqa: F401

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
        from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass
        from executorch.runtime import Runtime, Verification

        captured = export(program)
        exported = captured.exported
        partitioner = [XnnpackPartitioner()] if option(options, self, "delegate") == "xnnpack" else []
        lowered = to_edge_transform_and_lower(exported, partitioner=partitioner)
        changed = lowered.exported_program().graph_signature.buffers_to_mutate.values()
        # By default buffers that a program changes start with zeros, whatever they held.
        passes = [InitializedMutableBufferPass([name.rsplit(".", 1)[-1] for name in changed])]
        data = lowered.to_executorch(ExecutorchBackendConfig(passes=passes)).buffer
        count = len(exported.graph_signature.user_outputs)

        def load() -> tuple[Any, Any]:
            loaded = Runtime.get().load_program(data, verification=Verification.Minimal)
            return loaded, loaded.load_method("forward")

        kept = _with_log(load)

        def execute(*tensors: Any) -> Sequence[Any]:
            _, method = _with_log(load) if changed else kept  # state must not leak from one run into the next
            results = _with_log(lambda: method.execute(tensors))
            return [tensor.clone() for tensor in results[len(results) - count :]]  # changed inputs come first

        return flat_runner(captured, execute)

    def is_rejection(self, error: BaseException) -> bool:
        return (
            super().is_rejection(error)
            or is_export_rejection(error)
            or any(text in str(error) for text in _REJECTION_TEXTS)
        )


def _with_log(action: Callable[[], Any]) -> Any:
    """Run `action`; if it raises, add to the error code the log line that gives the reason."""
    with tempfile.TemporaryFile() as log:
        saved = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            return action()
        except RuntimeError as error:
            log.seek(0)
            found = _LOG_LINE.search(log.read().decode(errors="replace"))
            raise RuntimeError(f"{error}: {found.group(1)}" if found else str(error)) from error
        finally:
            os.dup2(saved, 2)
            os.close(saved)
