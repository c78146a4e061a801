"""TorchScript: `torch.jit.script`, or a trace where scripting does not support the program; then freeze and optimise.

If a program was a TorchScript file, that file is run.

A trace records one path through the program. The tracer warns where a path was chosen, by a size (which is a tensor
during tracing) or by values. In that case the graph of torch.export is traced: it has resolved choices by sizes, and
torch.export rejects programs that choose by values, for which a trace would mean something else than the program. The
profiling executor optimises on the second run of a graph, so the graph has been run twice when compiling is done.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from driftline.backends._export import flat_runner
from driftline.backends._torch import TorchBackend, TorchCalls, flatten_outputs
from driftline.backends.base import BOOLEAN, Compiled, Option, Options, Unsupported, option
from driftline.core.execution import Stage
from driftline.core.script_call import ScriptCall
from driftline.core.tensors import Arrays
from driftline.core.text import first_line
from driftline.programs.captured import capture
from driftline.programs.opened import OpenedProgram
from driftline.programs.torchscript_file import embedded, load_embedded

_PROFILING_RUNS = 2
_PATH_CHOSEN = "Converting a tensor to a Python"  # a branch, a loop bound or a number was taken from a tensor

Taken = tuple[Any, Callable[[Any], Compiled]]  # a graph, and a function that wraps it as a call on arrays


_SCRIPT = """\
def torchscript(function, *inputs):
    graph = {take}
    graph(*copy.deepcopy(inputs))  # copies, since the program may write to its inputs
{freeze}\
    for _ in range(2):  # it optimises in the second run
        graph(*copy.deepcopy(inputs))
    return graph(*inputs)
"""
_FREEZE = """\
    if isinstance(graph, torch.jit.ScriptModule) and not graph.training:
        graph = torch.jit.optimize_for_inference(torch.jit.freeze(graph))
"""
_TAKEN = {
    "script": "torch.jit.script(function)",
    "trace": "torch.jit.trace(function, copy.deepcopy(inputs), check_trace=False)",
}


_UNSUPPORTED = (
    "is currently not supported",
    "Tensor that doesn't have storage",  # inside torch.func.grad and vmap, which tracing does not take
)


class TorchScript(TorchBackend):
    name = "torchscript"
    prefers = "torchscript"
    preset = "quick"
    sizes = False  # compiled for the sizes of its example
    batch = 40
    rungs = ("eager", "freeze=false")
    gradients = False
    mutates = False  # a frozen copy runs, and a trace has forgotten which tensors were the caller's
    options = {
        "mode": Option("how the graph is taken; auto scripts if that works", ("auto", "script", "trace"), "auto"),
        "freeze": Option("freeze the module and optimise it for inference", BOOLEAN, "true"),
    }

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        """Return the script calls for the chosen mode: with `auto`, both scripting and tracing."""
        if framework != "torch":
            return ()
        mode, freeze = option(options, self, "mode"), _FREEZE if option(options, self, "freeze") == "true" else ""
        texts = {way: _SCRIPT.format(take=take, freeze=freeze) for way, take in _TAKEN.items() if mode in (way, "auto")}
        # A function is scripted as it is; it is traced as a module, which can be frozen.
        call = "torchscript(function, *inputs)"
        return [ScriptCall(call, text, ("import copy",), module=way == "trace") for way, text in texts.items()]

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        import torch

        program.enter(Stage.CONVERT)
        data = embedded(program.path) if program.form == "torch" else None
        if data is not None:
            graph, wrap = _own_file(program, data)
            buffers = _Buffers(graph)
        else:
            buffers = _Buffers(program.live.function)
            graph, wrap = _take_graph(program, option(options, self, "mode"))
        program.enter(Stage.COMPILE)
        run = buffers.restored_before(wrap(graph))
        run(program.example)
        if option(options, self, "freeze") == "true" and _can_freeze(graph) and not buffers.changed():
            buffers.restore()
            graph = torch.jit.optimize_for_inference(torch.jit.freeze(graph))
            run = wrap(graph)
        for _ in range(_PROFILING_RUNS):
            run(program.example)
        return run

    def is_rejection(self, error: BaseException) -> bool:
        return super().is_rejection(error) or any(words in str(error) for words in _UNSUPPORTED)


class _Buffers:
    """Restores the model's buffers, which a scripted graph shares, so that one run does not affect the next."""

    def __init__(self, function: Any) -> None:
        found = list(function.buffers()) if hasattr(function, "buffers") else []
        self._saved = [(buffer, buffer.clone()) for buffer in found]

    def restore(self) -> None:
        import torch

        with torch.no_grad():
            for buffer, original in self._saved:
                buffer.copy_(original)

    def changed(self) -> bool:
        return any(not buffer.equal(original) for buffer, original in self._saved)

    def restored_before(self, run: Compiled) -> Compiled:
        def restore_and_run(arrays: Arrays) -> Arrays:
            self.restore()
            return run(arrays)

        return restore_and_run


def _own_file(program: OpenedProgram, data: bytes) -> Taken:
    """Load the user's own TorchScript file; its results get the names that they have in the archive made from it."""
    import torch

    calls = TorchCalls(program)
    call = calls.prepare(program.example)
    with torch.no_grad():
        names = list(flatten_outputs(program.live.function(*call.args, **call.kwargs)))

    def wrap(optimised: Any) -> Compiled:
        def run(arrays: Arrays) -> Arrays:
            call = calls.prepare(arrays)
            with torch.no_grad():
                found = flatten_outputs(optimised(*call.args, **call.kwargs))
            return dict(zip(names, found.values(), strict=True))

        return run

    return load_embedded(data), wrap


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
    """True if the graph can be frozen. Freezing a module in training mode would change its meaning."""
    import torch

    return isinstance(graph, torch.jit.ScriptModule) and not graph.training


def _script(program: OpenedProgram) -> Taken:
    import torch

    try:
        graph = torch.jit.script(program.live.function)
        if isinstance(graph, torch.jit.ScriptModule) and not graph._c._has_method("forward"):
            raise Unsupported("torch.jit.script leaves out an overloaded forward")  # as that of nn.LSTM
    except Exception as error:
        # The scripting language is a small part of Python: an error means that the program is not supported.
        raise Unsupported(f"torch.jit.script: {first_line(str(error))}") from error

    calls = TorchCalls(program)

    def wrap(optimised: Any) -> Compiled:
        def run(arrays: Arrays) -> Arrays:
            call = calls.prepare(arrays)  # the tensors lie as the program's own do
            with torch.no_grad():
                return flatten_outputs(optimised(*call.args, **call.kwargs))

        return run

    return graph, wrap


def _trace(program: OpenedProgram) -> Taken:
    from driftline.programs.flat_torch import FlatModule

    flat = FlatModule(program)
    graph, choice = _traced(flat, flat.example)
    if choice is None:
        return graph, lambda optimised: flat_runner(flat, optimised)
    return _trace_captured(program, flat.example, choice)


def _trace_captured(program: OpenedProgram, example: Sequence[Any], choice: str) -> Taken:
    """Trace the graph that torch.export makes of a program that chooses a path by a tensor."""
    said = f"torch.jit.trace: the program chooses a path by a tensor ({choice})"
    try:
        captured = capture(program)
        module = captured.exported.module(check_guards=False)
        module._forward_pre_hooks.clear()  # they compare sizes with those of the export, a branch for each
        graph, again = _traced(module, example)
    except Exception as error:
        # Either of them does not take the program. Neither is what the user asked for, so it is no failure.
        raise Unsupported(f"{said}, and torch.export does not capture it: {first_line(str(error))}") from error
    if again is not None:
        raise Unsupported(f"{said}, by its values")
    if captured.exported.graph_signature.buffers_to_mutate:
        raise Unsupported(f"{said}, and changes its own buffers")  # copies of them, which nothing would restore
    return graph, lambda optimised: flat_runner(captured, optimised)


def _traced(module: Any, example: Sequence[Any]) -> tuple[Any, str | None]:
    """Return a trace, and the line of the program at which a path was chosen, or None."""
    import torch

    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", torch.jit.TracerWarning)
        graph = torch.jit.trace(module, tuple(example), strict=False, check_trace=False)
    chosen = [one for one in caught if _PATH_CHOSEN in str(one.message)]
    return graph, f"{Path(chosen[0].filename).name}:{chosen[0].lineno}" if chosen else None
