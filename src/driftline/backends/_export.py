"""Shared code of the backends that extract a graph from the user's code once and never call that code again.

Such a graph takes and returns plain tuples of tensors; the program's own structure is stored separately. Changes to the
caller's tensors are lost, so only the results are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from driftline.backends._torch import flatten_outputs
from driftline.backends.base import Compiled
from driftline.core.errors import chain
from driftline.core.execution import Stage
from driftline.core.tensors import Arrays
from driftline.programs.captured import EXPORT_REJECTIONS, Captured, capture, read_captured
from driftline.programs.live import is_tensor
from driftline.programs.opened import OpenedProgram


class FlatNames(Protocol):
    """The names of a graph's inputs and results; results that are not tensors are constants."""

    @property
    def inputs(self) -> tuple[str, ...]: ...

    @property
    def outputs(self) -> Mapping[str, Any]: ...


def flat_runner(module: FlatNames, graph: Callable[..., Sequence[Any]]) -> Compiled:
    """Wrap a graph extracted from `module`: the result maps arrays to arrays under the program's own names."""
    import torch

    from driftline.programs.torch_tensors import tensor_from_array

    outputs = dict(module.outputs)

    def run(arrays: Arrays) -> Arrays:
        with torch.no_grad():
            tensors = iter(graph(*(tensor_from_array(arrays[name]) for name in module.inputs)))
        return flatten_outputs({name: next(tensors) if is_tensor(leaf) else leaf for name, leaf in outputs.items()})

    return run


def export(program: OpenedProgram) -> Captured:
    """Return the program captured by torch.export, from the file that targets share if there is one for these sizes. A
    failure counts as a conversion failure, whichever backend needed the graph."""
    program.enter(Stage.CONVERT)
    shared = read_captured(program.captured, program) if program.captured else None
    made = shared or capture(program)
    program.enter(Stage.COMPILE)
    return made


def is_export_rejection(error: BaseException) -> bool:
    """True if torch.export, or a cause of the error, says that the program cannot be captured."""
    return any(type(one).__name__ in EXPORT_REJECTIONS for one in chain(error))
