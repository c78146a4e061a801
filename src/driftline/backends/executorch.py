"""ExecuTorch: torch.export, the edge dialect, and its runtime with portable kernels or XNNPACK.

The import takes seconds and talks a lot; both are paid once, before workers are forked.
"""

from __future__ import annotations

from driftline.backends._export import export, is_export_rejection
from driftline.backends._torch import flatten_outputs
from driftline.backends.base import Backend, Compiled, Option, Options, option
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram


class ExecuTorch(Backend):
    name = "executorch"
    accepts = ("source:torch", "torch")
    module = "executorch"
    distribution = "executorch"
    options = {"delegate": Option("who runs the operators it can", ("portable", "xnnpack"), "portable")}

    def warm(self) -> None:
        import executorch.backends.xnnpack.partition.xnnpack_partitioner
        import executorch.exir
        import executorch.runtime  # noqa: F401

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        from executorch.exir import to_edge_transform_and_lower
        from executorch.runtime import Runtime, Verification

        from driftline.programs.torch_tensors import tensor_from_array

        exported = export(program)
        partitioner = [XnnpackPartitioner()] if option(options, self, "delegate") == "xnnpack" else []
        lowered = to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch()
        loaded = Runtime.get().load_program(lowered.buffer, verification=Verification.Minimal)
        method = loaded.load_method("forward")

        def run(arrays: Arrays) -> Arrays:
            import torch

            args, kwargs = program.live.call_arguments(arrays, tensor_from_array)
            flat, _ = torch.utils._pytree.tree_flatten((args, kwargs))
            results = method.execute([leaf for leaf in flat])
            return flatten_outputs(torch.utils._pytree.tree_unflatten(list(results), exported.call_spec.out_spec))

        return run

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or is_export_rejection(error)
