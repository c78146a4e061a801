"""A compiler that is correct and slow on demand: `planted-slow`. A plugin file, used by name through `--plugin`.

    planted-slow:factor=2                    every call takes twice the CPU time that it needs
    planted-slow:factor=5:op=softmax         only this operator does
    planted-slow:factor=1                    a sound twin
    planted-slow:skip=tile                   without the pass that makes it slow
    planted-slow:factor=1:compile=quadratic  compile time grows with the square of the number of operators
    planted-slow:factor=1:memory=quadratic   the memory of compiling does

Its results are those of eager. `driftline perf` is tested and measured (benchmarks/perf.py) on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from driftline.backends import register_backend
from driftline.backends._torch import TorchRunner
from driftline.backends.base import Backend, Compiled, Option, Options
from driftline.backends.knobs import Knob
from driftline.core.script_call import ScriptCall
from driftline.core.target import listed
from driftline.programs.opened import OpenedProgram

_SCRIPT = """
def slowed(function):
    def run(*args):
        return [function(*args) for _ in range({times})][0]
    return run
"""
_GROWING_SCRIPT = """
class Counted(TorchFunctionMode):
    seen = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen += 1
        return function(*args, **(kwargs or {{}}))


def compiled(function):
    def run(*args):
        with Counted() as counted:
            result = function(*args)
        until = time.process_time() + {seconds} * counted.seen**{time_power}
        while time.process_time() < until:
            pass
        bytearray(b"\\1") * ({size} * counted.seen**{memory_power})
        return result
    return run
"""
_POWERS = {"": 0, "linear": 1, "quadratic": 2}
_PASSES = ("fold", "tile", "unroll")
_GUILTY = "tile"
_SECONDS = {"linear": 3e-3, "quadratic": 2e-4}  # of compiling, for one operator or for one pair of them
_HIDING = 2  # operators: from here on the square is larger than what it takes to count them, which runs the program
_BYTES = {"linear": 1 << 20, "quadratic": 4 << 10}


def _slowed(function: Callable[[], Any], factor: float) -> Any:
    """Call the function, then burn CPU time until the total is `factor` times the CPU time of the call."""
    began = time.process_time()
    result = function()
    until = began + factor * (time.process_time() - began)
    while time.process_time() < until:
        pass
    return result


def _burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def _use(size: int) -> None:
    """Allocate `size` bytes, write to them, and free them."""
    bytearray(b"\1") * size


class PlantedSlow(Backend):
    """Eager execution with additional CPU time."""

    name = "planted-slow"
    accepts = ("source:torch", "torch")
    module = "torch"
    distribution = "torch"
    install = "pip install torch==2.13.0"
    family = "eager"
    gradients = True
    mutates = True
    options = {
        "factor": Option("how many times longer a call takes", default="2"),
        "op": Option("the operator that is slow; default: the whole program"),
        "skip": Option("passes to skip, with + between them: fold, tile (which makes it slow), unroll"),
        "compile": Option("how compile time grows with the program", ("linear", "quadratic")),
        "memory": Option("how the memory of compiling grows with the program", ("linear", "quadratic")),
    }

    def plainest(self, options: Options) -> Options:
        return {"factor": "1"}

    def knobs(self, options: Options) -> list[Knob]:
        left = [name for name in _PASSES if name not in listed(options, "skip")]
        return [Knob("skip", name, "pass") for name in left]

    def script_calls(self, framework: str, options: Options) -> Sequence[ScriptCall]:
        if framework != "torch" or options.get("op"):
            return ()
        time_grows, memory_grows = options.get("compile", ""), options.get("memory", "")
        if time_grows or memory_grows:
            text = _GROWING_SCRIPT.format(
                seconds=_SECONDS.get(time_grows, 0),
                time_power=_POWERS[time_grows],
                size=_BYTES.get(memory_grows, 0),
                memory_power=_POWERS[memory_grows],
            )
            imports = ("import time", "from torch.overrides import TorchFunctionMode")
            return [ScriptCall("compiled(function)", text, imports)]
        return [ScriptCall("slowed(function)", _SCRIPT.format(times=round(float(options.get("factor", "2")))))]

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        only = options.get("op", "")
        factor = 1.0 if _GUILTY in listed(options, "skip") else float(options.get("factor", "2"))
        function = program.live.function
        if "compile" in options or "memory" in options:
            began = time.process_time()
            count = _count(program)
            used = time.process_time() - began
            time_grows, memory_grows = options.get("compile", ""), options.get("memory", "")
            _burn(_SECONDS.get(time_grows, 0) * count ** _POWERS[time_grows])
            if time_grows == "quadratic":
                _burn(used * count / _HIDING)
            _use(_BYTES.get(memory_grows, 0) * count ** _POWERS[memory_grows])

        def run(*args: Any, **kwargs: Any) -> Any:
            if factor <= 1:
                return function(*args, **kwargs)
            if not only:
                return _slowed(lambda: function(*args, **kwargs), factor)
            with _interceptor(lambda name, call: _slowed(call, factor) if name == only else call()):
                return function(*args, **kwargs)

        for method in ("named_parameters", "named_buffers"):
            if hasattr(function, method):
                setattr(run, method, getattr(function, method))
        return TorchRunner(program, run)


def _count(program: OpenedProgram) -> int:
    """Return how many operators one call of the program executes."""
    seen = []

    def note(name: str, call: Callable[[], Any]) -> Any:
        seen.append(name)
        return call()

    def counted(*args: Any, **kwargs: Any) -> Any:
        with _interceptor(note):
            return program.live.function(*args, **kwargs)

    TorchRunner(program, counted).bare(program.example)()
    return len(seen)


def _interceptor(between: Callable[[str, Callable[[], Any]], Any]) -> Any:
    """Return a context manager in which torch calls go through `between(name, call)`."""
    from torch.overrides import TorchFunctionMode

    class Interceptor(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = str(getattr(func, "__name__", "")).strip("_")
            return between(name, lambda: func(*args, **(kwargs or {})))

    return Interceptor()


register_backend(PlantedSlow)
