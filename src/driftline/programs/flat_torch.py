"""Wraps a torch program as a module from tensors to a tuple of tensors, which all exporters and tracers accept.

Nested arguments, keyword arguments, dicts and Python numbers in the result all stay outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from driftline.core.structure import flatten
from driftline.programs.live import is_tensor
from driftline.programs.opened import OpenedProgram
from driftline.programs.torch_tensors import tensor_from_array


def as_module(function: Any) -> Any:
    """Return the function as a module, since exporters accept modules only."""
    if isinstance(function, torch.nn.Module):
        return function

    class Wrapper(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    return Wrapper()


def opened(axes: Sequence[int]) -> dict[int, Any] | None:
    """Return the `dynamic_shapes` entry for open axes, None if there are none. An exporter that needs one fixed must
    then report it."""
    return dict.fromkeys(axes, torch.export.Dim.DYNAMIC) or None


class _Recorded:
    """Holds the last result's leaves in an object that torch.export does not know: torch.export would undo changes to a
    module's own attributes."""

    def __init__(self) -> None:
        self.outputs: dict[str, Any] = {}


class FlatModule(torch.nn.Module):  # type: ignore[misc]
    """The program as a module that takes its input tensors in the order of `program.example`."""

    def __init__(self, program: OpenedProgram) -> None:
        super().__init__()
        self._live = program.live
        self.program = as_module(program.live.function)
        self.training = self.program.training
        self.inputs = tuple(program.example)
        self.example = tuple(tensor_from_array(array) for array in program.example.values())
        self._recorded = _Recorded()
        self._open = program.open_axes

    @property
    def dynamic_shapes(self) -> dict[str, Any] | None:
        """The sizes that exporters must keep open: axes along which the program is run at several sizes."""
        if not self._open:
            return None
        return {"tensors": tuple(opened(self._open.get(name, ())) for name in self.inputs)}

    def forward(self, *tensors: Any) -> Any:
        named: Any = dict(zip(self.inputs, tensors, strict=True))
        args, kwargs = self._live.call_arguments(named, lambda tensor: tensor)
        self._recorded.outputs = flatten(self.program(*args, **kwargs), "output")
        return tuple(leaf for leaf in self.outputs.values() if is_tensor(leaf))

    @property
    def outputs(self) -> dict[str, Any]:
        """The leaves of the last result, by name; numbers among them are constants of the graph."""
        return self._recorded.outputs
