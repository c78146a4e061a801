"""Shared by the backends that take a graph out of the user's code once and never call that code again.

Such a graph takes and returns plain tuples of tensors; the program's own structure is kept beside it. What happens to
the caller's tensors is lost, so only the results are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from driftline.backends._torch import flatten_outputs
from driftline.backends.base import Compiled
from driftline.core.execution import Stage
from driftline.core.tensors import Arrays
from driftline.programs.live import is_tensor
from driftline.programs.opened import OpenedProgram

if TYPE_CHECKING:  # it imports torch
    from driftline.programs.flat_torch import FlatModule

# What torch.export raises when a program is outside of what it can capture.
_REJECTIONS = (
    "UserError",
    "Unsupported",
    "GuardOnDataDependentSymNode",
    "PendingUnbackedSymbolNotFound",
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "UnsupportedOperatorException",
    "UnsupportedFakeTensorException",
    "UncapturedHigherOrderOpError",
)


def flat_runner(module: FlatModule, graph: Callable[..., Sequence[Any]]) -> Compiled:
    """Wrap a graph that was taken from `module`: arrays in, arrays under the program's own names out."""
    import torch

    from driftline.programs.torch_tensors import tensor_from_array

    outputs = dict(module.outputs)

    def run(arrays: Arrays) -> Arrays:
        with torch.no_grad():
            tensors = iter(graph(*(tensor_from_array(arrays[name]) for name in module.inputs)))
        return flatten_outputs({name: next(tensors) if is_tensor(leaf) else leaf for name, leaf in outputs.items()})

    return run


def export(program: OpenedProgram) -> tuple[Any, FlatModule]:
    """The program as torch.export sees it. Its failure is one of converting, whoever asked for it."""
    import torch

    from driftline.programs.flat_torch import FlatModule

    program.enter(Stage.CONVERT)
    flat = FlatModule(program)
    with torch.no_grad():
        exported = torch.export.export(flat, flat.example, dynamic_shapes=flat.dynamic_shapes, strict=False)
    program.enter(Stage.COMPILE)
    return exported, flat


def is_export_rejection(error: BaseException) -> bool:
    """Does torch.export, or a cause it names, say that the program cannot be captured?"""
    seen: BaseException | None = error
    while seen is not None:
        if type(seen).__name__ in _REJECTIONS:
            return True
        seen = seen.__cause__
    return False
