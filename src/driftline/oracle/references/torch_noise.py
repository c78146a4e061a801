"""How far may rounding move the result of a torch program? Run it in float64 with rounding errors put in by hand.

Every operation that rounds has its operands and its result moved by one rounding error, up or down at random.
Operations that only move, choose or step (views, gather, maximum, floor, comparisons) are exact on what they are given
and get no noise of their own: a floor division of two given numbers has one right answer, however close to an integer
the quotient is, but the floor of a computed quotient may go either way.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

# ATen operations that make no rounding error; in-place variants count with them.
_MOVING = {
    "alias", "arange", "as_strided", "cat", "clone", "constant_pad_nd", "copy", "detach", "embedding",
    "empty", "empty_like", "expand", "eye", "fill", "flip", "full", "full_like", "gather", "im2col", "index",
    "index_put", "index_select", "lift_fresh", "masked_fill", "masked_scatter", "masked_select", "new_empty",
    "new_full", "new_ones", "new_zeros", "ones", "ones_like", "permute", "repeat", "roll", "scalar_tensor", "scatter",
    "select_backward", "select_scatter", "slice_backward", "slice_scatter", "stack", "take", "tril", "triu", "unfold",
    "where", "zero", "zeros", "zeros_like", "_local_scalar_dense", "_to_copy",
}  # fmt: skip
_CHOOSING = {
    "abs", "amax", "amin", "argmax", "argmin", "argsort", "clamp", "clamp_max", "clamp_min", "cummax", "cummin",
    "fmax", "fmin", "hardtanh", "kthvalue", "max", "max_pool2d", "max_pool2d_with_indices", "max_pool3d_with_indices",
    "maximum", "median", "min", "minimum", "mode", "neg", "relu", "relu6", "sort", "topk",
}  # fmt: skip
_STEPPING = {
    "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "bucketize", "ceil", "eq", "equal", "floor",
    "floor_divide", "fmod", "frac", "ge", "gt", "heaviside", "isfinite", "isinf", "isnan", "le", "logical_and",
    "logical_not", "logical_or", "logical_xor", "lt", "ne", "nonzero", "remainder", "round", "searchsorted", "sgn",
    "sign", "signbit", "trunc",
}  # fmt: skip
_EXACT = _MOVING | _CHOOSING | _STEPPING


class RoundingNoise(TorchDispatchMode):
    """While active, float64 operations are as inexact as operations with unit roundoff `unit` may be."""

    def __init__(self, unit: float, seed: int) -> None:
        super().__init__()
        self._unit = unit
        self._generator = torch.Generator().manual_seed(seed)  # the program's own random numbers stay what they are

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _is_exact(func, kwargs):
            return func(*args, **kwargs)
        written = {a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write}
        names = [a.name for a in func._schema.arguments]
        args = [a if name in written else tree_map(self._moved, a) for name, a in zip(names, args, strict=False)]
        kwargs = {name: a if name in written else tree_map(self._moved, a) for name, a in kwargs.items()}
        result = func(*args, **kwargs)
        if written:  # the caller holds the tensor that was written: it has to stay the same object
            tree_map(self._move_in_place, result)
            return result
        return tree_map(self._moved, result)

    def _moved(self, value: Any) -> Any:
        return value * self._factors(value) if _rounds(value) else value

    def _move_in_place(self, value: Any) -> Any:
        if _rounds(value):
            value.mul_(self._factors(value))
        return value

    def _factors(self, value: torch.Tensor) -> torch.Tensor:
        signs = torch.randint(0, 2, value.shape, generator=self._generator).mul_(2).sub_(1)
        return signs.to(torch.float64).mul_(self._unit).add_(1.0)


def _is_exact(func: Any, kwargs: Any) -> bool:
    name = func._schema.name.partition("::")[2]
    return func.is_view or name.removesuffix("_") in _EXACT or kwargs.get("rounding_mode") is not None


def _rounds(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float64, torch.complex128)


def coarsest_unit(tensors: list[torch.Tensor]) -> float:
    """The unit roundoff of the least exact float among a program's inputs and weights."""
    floats = {t.dtype for t in tensors if t.dtype.is_floating_point} or {torch.get_default_dtype()}
    return max(float(torch.finfo(dtype).eps) for dtype in floats) / 2
