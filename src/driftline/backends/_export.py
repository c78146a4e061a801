"""Shared by the backends that take a graph out of the user's code once and never call that code again.

Nothing they return says what happened to the caller's tensors, so only the results are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from driftline.backends._torch import flatten_outputs
from driftline.backends.base import Compiled
from driftline.core.execution import Stage
from driftline.core.tensors import Arrays
from driftline.programs.opened import OpenedProgram

# What torch.export raises when a program is outside of what it can capture.
_REJECTION_TYPES = (
    "UserError",
    "Unsupported",
    "GuardOnDataDependentSymNode",
    "PendingUnbackedSymbolNotFound",
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "UnsupportedOperatorException",
    "UnsupportedFakeTensorException",
    "UncapturedHigherOrderOpError",
    "SpecViolationError",
    "TorchExportError",
)
_REJECTION_TEXTS = (
    "Cannot associate shape",
    "It looks like one of the outputs with type",  # an output that is no pytree of tensors
    "is not registered as a pytree",
    "does not support torch.nn.DataParallel",
    "mutating a leaf parameter",
)


def export(program: OpenedProgram) -> Any:
    """The program as torch.export sees it. Its failure is one of converting, whoever asked for it."""
    import torch

    from driftline.programs.convert import _as_module
    from driftline.programs.torch_tensors import tensor_from_array

    live = program.live
    program.enter(Stage.CONVERT)
    args, kwargs = live.call_arguments(program.example, tensor_from_array)
    with torch.no_grad():
        exported = torch.export.export(_as_module(live.function), args, kwargs, strict=False)
    program.enter(Stage.COMPILE)
    return exported


def is_export_rejection(error: BaseException) -> bool:
    """Does torch.export, or a cause it names, say that the program cannot be captured?"""
    seen: BaseException | None = error
    while seen is not None:
        if type(seen).__name__ in _REJECTION_TYPES or any(text in str(seen) for text in _REJECTION_TEXTS):
            return True
        seen = seen.__cause__
    return False


def results_only(program: OpenedProgram, function: Callable[..., Any]) -> Compiled:
    """Wrap a callable on tensors that takes the program's own arguments."""
    import torch

    from driftline.programs.torch_tensors import tensor_from_array

    def run(arrays: Arrays) -> Arrays:
        args, kwargs = program.live.call_arguments(arrays, tensor_from_array)
        with torch.no_grad():
            return flatten_outputs(function(*args, **kwargs))

    return run
