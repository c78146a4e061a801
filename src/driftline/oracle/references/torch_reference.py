"""torch programs: eager, and eager with every float tensor lifted to float64."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from driftline.backends._torch import torch_runner
from driftline.core.tensors import Arrays
from driftline.oracle.references.base import NoExactReference
from driftline.oracle.references.torch_noise import RoundingNoise, coarsest_unit
from driftline.programs.live import LiveProgram
from driftline.programs.opened import OpenedProgram

_LIFT = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float8_e4m3fn: torch.float64,
    torch.float8_e5m2: torch.float64,
    torch.complex64: torch.complex128,
}
_CASTS = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}


class _InFloat64(TorchFunctionMode):
    """Every torch call sees float64 where the program says a smaller float."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _CASTS:
            func = torch.Tensor.double
        args, kwargs = tree_map(_lift, (args, kwargs or {}))
        return func(*args, **kwargs)


def _lift(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return _LIFT.get(value, value)
    if isinstance(value, torch.Tensor) and value.dtype in _LIFT and not value.is_quantized:
        with torch._C.DisableTorchFunctionSubclass():
            return value.to(_LIFT[value.dtype])
    return value


class TorchReference:
    def __init__(self, program: OpenedProgram) -> None:
        self._program = program
        self._native = torch_runner(program, program.live.function)
        self._exact: Callable[[Arrays], Arrays] | None = None

    def native(self, arrays: Arrays) -> Arrays:
        self._program.reseed()
        return self._native(arrays)

    def exact(self, arrays: Arrays) -> Arrays:
        if self._exact is None:
            self._exact = self._prepare_exact()
        self._program.reseed()
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            return self._exact(arrays)
        except Exception as error:
            raise NoExactReference(f"the program does not run in float64 ({type(error).__name__})") from error
        finally:
            torch.set_default_dtype(default)

    def noisy(self, arrays: Arrays, seed: int) -> Arrays:
        """One float64 run in which every operation makes the rounding errors that the program's dtypes allow."""
        with RoundingNoise(self._unit(), seed):
            return self.exact(arrays)

    def _unit(self) -> float:
        live = self._program.live
        tensors = [leaf for leaf in tree_leaves(dict(live.arguments)) if isinstance(leaf, torch.Tensor)]
        if isinstance(live.function, torch.nn.Module):
            tensors += [*live.function.parameters(), *live.function.buffers()]
        return coarsest_unit(tensors)

    def _prepare_exact(self) -> Callable[[Arrays], Arrays]:
        live = self._program.live
        function = live.function
        if isinstance(function, torch.nn.Module):
            try:
                function = copy.deepcopy(function).to(torch.float64)
            except Exception as error:
                raise NoExactReference(f"the model cannot be copied ({type(error).__name__})") from error

        def in_float64(*args: Any, **kwargs: Any) -> Any:
            with _InFloat64():
                return function(*args, **kwargs)

        # named_parameters of the lifted model are what gradients are taken for
        for method in ("named_parameters", "named_buffers"):
            if hasattr(function, method):
                setattr(in_float64, method, getattr(function, method))
        lifted = LiveProgram("torch", in_float64, live.arguments, live.positional)
        program = OpenedProgram(
            self._program.program,
            example=self._program.example,
            grad=self._program.grad,
            seed=self._program.seed,
            live=lifted,
        )
        return torch_runner(program, in_float64)
