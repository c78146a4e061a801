"""A compiler for tests: torch's eager, but sums are doubled, sigmoid is halved and 0 of NaN, erf is 0 beyond 4 and of
NaN, tanh is 0 of NaN, neg does nothing, ties are rounded up, asinh is a little too large, casts of what was cast are
lost, cos takes nothing beyond 8, atan is too large and its gradient NaN, the absolute value of a complex number is that
of its real part, and the gradient of silu is too large."""

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

    cast: dict[int, Any] = {}

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
            if name == "round":
                return (args[0] + 0.5).floor()
            if name == "cos" and (args[0].isnan().any() or args[0].abs().max() > 8):
                return func(args[0].clamp(-8, 8))
            if name == "asinh":
                return result + 2.0**-9
            if name == "to" and id(args[0]) in cast:
                return cast[id(args[0])].to(result.dtype) if cast[id(args[0])].dtype == result.dtype else result
            if name == "to":
                cast[id(result)] = args[0]
            if name == "atan":
                result = result * 1.5
                if result.requires_grad:
                    result.register_hook(lambda gradient: gradient * float("nan"))
            if name == "silu" and result.requires_grad:
                result = result * 1.0
                result.register_hook(lambda gradient: gradient * 1.5)
            return result

    def run(*args: Any, **kwargs: Any) -> Any:
        cast.clear()
        with Faults():
            return function(*args, **kwargs)

    return run
