"""Shared code of the backends that go through `torch.compile`."""

from __future__ import annotations

import contextlib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from driftline.backends._torch import TorchCalls, TorchRunner, as_arrays, backward, cotangents, placed
from driftline.backends.base import Blamed, CompiledFacts, CompiledTogether, Options
from driftline.core.execution import Stage
from driftline.core.quoting import string
from driftline.core.script_call import ScriptCall
from driftline.core.tensors import Arrays
from driftline.core.text import first_line
from driftline.programs.opened import OpenedProgram


def dynamo_script_calls(backend: str, framework: str) -> Sequence[ScriptCall]:
    """Return the script calls for a `torch.compile` backend; empty for other frameworks than torch."""
    return [ScriptCall(f"torch.compile(function, backend={string(backend)})")] if framework == "torch" else ()


def compile_with_dynamo(
    program: OpenedProgram, backend: str | Callable[..., Any], target: Options, **settings: Any
) -> DynamoRunner:
    """Compile the program with `torch.compile` and run it once, so that compilation is finished on return. Of the
    target's options only the device and its arithmetic are used."""
    import torch
    import torch._dynamo

    torch._dynamo.reset()
    # Random operations must draw the same numbers as eager, or nothing could be compared.
    torch._inductor.config.fallback_random = True
    function, device = placed(program.live.function, target)
    compiled = torch.compile(function, backend=backend, **settings)
    run = DynamoRunner(program, compiled, device)
    with _announce_stages(program):
        program.reseed()
        try:
            run(program.example)
        except torch._dynamo.exc.TorchDynamoException:  # the compiler's own, raised after its end was announced
            program.enter(Stage.COMPILE)
            raise
    return run


class DynamoRunner(TorchRunner):
    """Runs a program compiled by `torch.compile`, and counts its graphs."""

    def __init__(self, program: OpenedProgram, function: Callable[..., Any], device: str) -> None:
        super().__init__(program, function, device)
        self._graphs_before, self._breaks_before = _counted()

    @property
    def facts(self) -> CompiledFacts:
        """Graphs and graph breaks since the runner was created."""
        graphs, breaks = _counted()
        return CompiledFacts(graphs - self._graphs_before, tuple((breaks - self._breaks_before).elements()))


def _counted() -> tuple[int, Counter[str]]:
    """Return the numbers of graphs and of graph breaks (by reason) that Dynamo has counted in this process."""
    from torch._dynamo.utils import counters

    breaks = Counter({first_line(reason): count for reason, count in counters["graph_break"].items()})
    return counters["stats"]["unique_graphs"], breaks


def compile_together_with_dynamo(
    programs: Sequence[OpenedProgram],
    samples: Sequence[Sequence[Arrays]],
    backend: str | Callable[..., Any],
    target: Options,
    **settings: Any,
) -> CompiledTogether:
    """Compile independent programs as one graph, so that the fixed cost of a compilation is paid once.

    A program with a graph break raises `Blamed`, since all programs would otherwise be compiled one by one; the others
    are then compiled without it. If programs run at several sizes, Dynamo is told in advance which sizes are open:
    otherwise it compiles everything for the first size, and again when it sees the second.
    """
    import torch
    import torch._dynamo

    torch._dynamo.reset()
    torch._inductor.config.fallback_random = True
    functions = [placed(program.live.function, target)[0] for program in programs]
    calls = [TorchCalls(program, target.get("device", "cpu")) for program in programs]
    axes = [_open_axes(own) for own in samples]

    def together(*prepared: Any) -> list[Any]:
        return [f(*args, **kwargs) for f, (args, kwargs) in zip(functions, prepared, strict=True)]

    compiled = torch.compile(together, backend=backend, fullgraph=True, **settings)

    def run(each: Sequence[Arrays]) -> list[Arrays]:
        prepared = [call.prepare(arrays) for call, arrays in zip(calls, each, strict=True)]
        for one, named in zip(prepared, axes, strict=True):
            for name, axis in named:
                torch._dynamo.maybe_mark_dynamic(one.tensors[name], axis)
        with torch.set_grad_enabled(programs[0].grad), _blaming(programs):
            results = compiled(*((one.args, one.kwargs) for one in prepared))
        runs = list(zip(calls, prepared, results, strict=True))
        if programs[0].grad:
            backward([pair for p, result in zip(programs, results, strict=True) for pair in cotangents(result, p.seed)])
        return [as_arrays(call.outputs(one, result)) for call, one, result in runs]

    return run


def _open_axes(samples: Sequence[Arrays]) -> list[tuple[str, int]]:
    """Return the inputs and axes whose size differs between the samples."""
    return [
        (name, axis)
        for name, array in samples[0].items()
        for axis in range(array.ndim)
        if any(other[name].shape[axis : axis + 1] != array.shape[axis : axis + 1] for other in samples)
    ]


def source_file(program: OpenedProgram) -> str:
    """Return the file of the program's source lines, as recorded in the graph."""
    function = program.live.function
    function = getattr(type(function), "forward", function)
    return str(getattr(getattr(function, "__code__", None), "co_filename", ""))


@contextlib.contextmanager
def _blaming(programs: Sequence[OpenedProgram]) -> Iterator[None]:
    """Turn an error whose traceback names the files of some programs into `Blamed` for these programs."""
    try:
        yield
    except Exception as error:
        told = "".join(traceback.format_exception(error))
        files = [source_file(program) for program in programs]
        blamed = [number for number, file in enumerate(files) if file and f'"{file}"' in told]
        if 0 < len(blamed) < len(programs):
            raise Blamed(blamed) from error
        raise


class _announce_stages:
    """Context manager that separates compiling from running in the first call, to blame a crash on the right stage."""

    def __init__(self, program: OpenedProgram) -> None:
        self._program = program

    def __enter__(self) -> None:
        from torch._dynamo.callback import callback_handler

        callback_handler.register_start_callback(self._started)
        callback_handler.register_end_callback(self._ended)

    def __exit__(self, *_: object) -> None:
        from torch._dynamo.callback import callback_handler

        callback_handler.clear()

    def _started(self, *_: object) -> None:
        self._program.enter(Stage.COMPILE)

    def _ended(self, *_: object) -> None:
        self._program.enter(Stage.RUN)
