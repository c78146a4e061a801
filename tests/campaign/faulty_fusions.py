"""Compilers for tests: torch's eager, but a product of what a function gave is doubled, a function of what a function
gave is too large, and what is written through a view that the program makes is lost. In `faulty-fusions-of-two` these
functions are only silu and relu; in `faulty-fusions-and-relu`, relu is wrong besides, wherever it is met."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from driftline.backends import register_backend
from driftline.backends._torch import TorchBackend, TorchRunner
from driftline.backends.base import Compiled, Options
from driftline.programs.opened import OpenedProgram

PRODUCTS = ("matmul", "__matmul__", "mm")
WRITES = ("add_", "relu_", "sigmoid_", "mul_")


@register_backend
class FaultyFusions(TorchBackend):
    name = "faulty-fusions"
    functions = ("relu", "sigmoid", "tanh", "abs", "silu", "exp", "sin")
    relu_is_wrong = False

    def compile(self, program: OpenedProgram, options: Options) -> Compiled:
        return TorchRunner(program, _faulty(program.live.function, self.functions, self.relu_is_wrong))


@register_backend
class FaultyFusionsOfTwo(FaultyFusions):
    name = "faulty-fusions-of-two"
    functions = ("silu", "relu")


@register_backend
class FaultyFusionsAndRelu(FaultyFusions):
    name = "faulty-fusions-and-relu"
    relu_is_wrong = True


def _faulty(function: Callable[..., Any], functions: tuple[str, ...], relu_is_wrong: bool) -> Callable[..., Any]:
    import torch
    from torch.overrides import TorchFunctionMode

    made: dict[int, Any] = {}  # by the functions; kept, so that no other tensor takes its identity
    views: dict[int, Any] = {}  # that the program makes

    class Faults(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(func, "__name__", "")
            if name in WRITES and id(args[0]) in views:
                return func(args[0].clone(), *args[1:], **kwargs or {})
            result = func(*args, **kwargs or {})
            if isinstance(result, torch.Tensor) and result._is_view():
                views[id(result)] = result
            if name in PRODUCTS and id(args[0]) in made:
                return result * 2
            if (name == "relu" and relu_is_wrong) or (name in functions and id(args[0]) in made):
                result = result + 1
            if name in functions:
                made[id(result)] = result
            return result

    def run(*args: Any, **kwargs: Any) -> Any:
        made.clear()
        views.clear()
        with Faults():
            return function(*args, **kwargs)

    return run
