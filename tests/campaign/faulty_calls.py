"""A compiler for tests: torch's eager, but sums are doubled, sigmoid is halved and 0 of NaN, erf is 0 beyond 4 and of
NaN, tanh is 0 of NaN, neg does nothing, the absolute value of a complex number is that of its real part, and the
gradient of silu is too large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from driftline.backends import register_backend
from driftline.backends._torch import TorchBackend, TorchRunner
from driftline.backends.base import Compiled, Options
from driftline.programs.opened import OpenedProgram


@register_backend
class FaultyCalls(TorchBackend):
    name = "faulty-calls"

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        return TorchRunner(program, _faulty(program.live.function))


def _faulty(function: Callable[..., Any]) -> Callable[..., Any]:
    import torch
    from torch.overrides import TorchFunctionMode

    class Faults(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = getattr(func, "__name__", "")
            result = func(*args, **kwargs)
            if name == "sum":
                return (result * 2).to(result.dtype)
            if name == "sigmoid":
                return torch.where(args[0] == args[0], result / 2, torch.zeros_like(result))
            if name == "erf":
                return torch.where(args[0] <= 4, result, torch.zeros_like(result))
            if name == "abs" and args[0].is_complex():
                return args[0].real.abs()
            if name == "neg":
                return args[0].clone()
            if name == "tanh":
                return torch.where(result == result, result, torch.zeros_like(result))
            if name == "silu" and result.requires_grad:
                result = result * 1.0
                result.register_hook(lambda gradient: gradient * 1.5)
            return result

    def run(*args: Any, **kwargs: Any) -> Any:
        with Faults():
            return function(*args, **kwargs)

    return run
