"""TorchScript: `torch.jit.script`, or a trace where the scripting language does not reach; then freeze and optimise.

A trace writes down one path through the program. Where the tracer warns that it had to choose, the trace means
something else than the program, and the program is rejected. The profiling executor optimises on the second run of a
graph, so the graph has been run twice when compiling is done.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from driftline.backends._export import results_only
from driftline.backends._torch import TorchBackend, flatten_outputs
from driftline.backends.base import BOOLEAN, Compiled, Option, Options, Unsupported, option
from driftline.core.execution import Stage
from driftline.core.structure import flatten
from driftline.core.tensors import Arrays
from driftline.core.text import first_line
from driftline.programs.live import is_tensor
from driftline.programs.opened import OpenedProgram

_PROFILING_RUNS = 2
_PATH_CHOSEN = "Converting a tensor to a Python"  # a branch, a loop bound or a number was taken from a tensor

Taken = tuple[Any, Callable[[Any], Compiled]]  # a graph, and how arrays get in and out of it


class TorchScript(TorchBackend):
    name = "torchscript"
    gradients = False
    mutates = False  # a frozen copy runs, and a trace has forgotten which tensors were the caller's
    options = {
        "mode": Option("how the graph is taken; auto scripts if that works", ("auto", "script", "trace"), "auto"),
        "freeze": Option("freeze the module and optimise it for inference", BOOLEAN, "true"),
    }

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import torch

        program.enter(Stage.CONVERT)
        graph, wrap = _take_graph(program, option(options, self, "mode"))
        program.enter(Stage.COMPILE)
        if option(options, self, "freeze") == "true" and _can_freeze(graph):
            graph = torch.jit.optimize_for_inference(torch.jit.freeze(graph))
        run = wrap(graph)
        for _ in range(_PROFILING_RUNS):
            run(program.example)
        return run


def _take_graph(program: OpenedProgram, mode: str) -> Taken:
    if mode == "trace":
        return _trace(program)
    try:
        return _script(program)
    except Unsupported:
        if mode == "script":
            raise
        return _trace(program)


def _can_freeze(graph: Any) -> bool:
    """Freezing takes a module with one `forward` in evaluation mode; in training mode it would change the meaning."""
    import torch

    # A module that overloads `forward`, as nn.LSTM does, is scripted without a method of that name.
    return isinstance(graph, torch.jit.ScriptModule) and not graph.training and graph._c._has_method("forward")


def _script(program: OpenedProgram) -> Taken:
    import torch

    try:
        graph = torch.jit.script(program.live.function)
    except Exception as error:
        # The scripting language is a small part of Python: what it does not compile, it does not support.
        raise Unsupported(f"torch.jit.script: {first_line(str(error))}") from error
    return graph, lambda optimised: results_only(program, optimised)


def _trace(program: OpenedProgram) -> Taken:
    """A trace takes and returns plain tuples of tensors; the program's own structure is kept beside it."""
    import torch

    from driftline.programs.convert import _as_module
    from driftline.programs.torch_tensors import tensor_from_array

    live = program.live
    outputs: dict[str, Any] = {}

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.program = _as_module(live.function)
            self.training = self.program.training

        def forward(self, *tensors: Any) -> Any:
            named: Any = dict(zip(program.example, tensors, strict=True))
            args, kwargs = live.call_arguments(named, lambda tensor: tensor)
            outputs.update(flatten(self.program(*args, **kwargs), "output"))
            return tuple(leaf for leaf in outputs.values() if is_tensor(leaf))

    def wrap(graph: Any) -> Compiled:
        def run(arrays: Arrays) -> Arrays:
            with torch.no_grad():
                tensors = iter(graph(*(tensor_from_array(arrays[name]) for name in program.example)))
            return flatten_outputs({n: next(tensors) if is_tensor(leaf) else leaf for n, leaf in outputs.items()})

        return run

    example = tuple(tensor_from_array(array) for array in program.example.values())
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", torch.jit.TracerWarning)
        graph = torch.jit.trace(Flat(), example, strict=False, check_trace=False)
    for warning in caught:
        if _PATH_CHOSEN in str(warning.message):
            raise Unsupported(f"torch.jit.trace: {first_line(str(warning.message))}")
    return graph, wrap
