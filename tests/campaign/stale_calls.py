"""A compiler for tests: torch's eager, but sin and exp of an absolute value give what they gave in the first call, mean
divides by the count of the first call, and floor rounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from driftline.backends import register_backend
from driftline.backends._torch import TorchBackend, TorchRunner
from driftline.backends.base import Compiled, Options
from driftline.programs.opened import OpenedProgram


@register_backend
class StaleCalls(TorchBackend):
    name = "stale-calls"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        return TorchRunner(program, _stale(program.live.function))


def _stale(function: Callable[..., Any]) -> Callable[..., Any]:
    from torch.overrides import TorchFunctionMode

    kept: dict[str, Any] = {}
    calls: list[int] = []

    class Stale(TorchFunctionMode):
        def __init__(self, later: bool) -> None:
            super().__init__()
            self.later = later
            self.absolute: Any = None

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            name = getattr(func, "__name__", "")
            if name == "abs":
                self.absolute = result
            if name == "sin" or (name == "exp" and args[0] is self.absolute):
                first = kept.setdefault(name, result.detach().clone())
                stale = self.later and first.shape == result.shape
                return first.clone() if stale else result
            if name == "mean":
                return result * (args[0].numel() / kept.setdefault(name, args[0].numel()))
            return args[0].round() if name == "floor" else result

    def run(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        with Stale(len(calls) > 1):
            return function(*args, **kwargs)

    return run
