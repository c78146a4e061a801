"""Which ATen operations make decisions: steps and choices."""

from __future__ import annotations

from typing import Any

import torch

from driftline.oracle.shadow.call import schema_argument
from driftline.oracle.shadow.torch.rules import is_cast, name_of

_STEPS = {
    "bucketize", "ceil", "eq", "fix", "floor", "floor_divide", "fmod", "frac", "ge", "gt", "heaviside", "isclose",
    "isfinite", "isinf", "isnan", "isneginf", "isposinf", "le", "logical_and", "logical_not", "logical_or",
    "logical_xor", "lt", "ne", "nonzero", "remainder", "round", "searchsorted", "sgn", "sign", "signbit", "trunc",
    "threshold", "threshold_backward", "all", "any", "isin", "count_nonzero", "elu_backward", "hardshrink_backward",
    "hardswish_backward", "hardtanh_backward", "softshrink_backward",
}  # fmt: skip
# choice -> number of the result with the indices
_CHOICES = {
    "argmax": 0, "argmin": 0, "argsort": 0, "max": 1, "min": 1, "topk": 1, "sort": 1, "median": 1, "nanmedian": 1,
    "kthvalue": 1, "mode": 1, "cummax": 1, "cummin": 1,
}  # fmt: skip
# the documentation says that the first of several equal elements is taken
_FIRST_WINS = {"argmax", "argmin", "max", "min"}
_COMPARISONS = {"eq", "ge", "gt", "le", "lt", "ne"}
_POOLS = {"max_pool2d_with_indices", "max_pool3d_with_indices"}


def index_result(node_target: Any, results: int) -> int | None:
    """Return the number of the result that holds the chosen indices, or `None` if the operation makes no choice."""
    index = _CHOICES.get(name_of(node_target))
    return index if index is not None and index < results else None


def takes_first_of_equals(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True if it is specified which of several equal elements is chosen."""
    return name_of(target) in _FIRST_WINS or schema_argument(target, args, kwargs, "stable") is True


def edge_of(target: Any, args: tuple[Any, ...]) -> float | None:
    """Return the number with which this operation compares a tensor, or `None`. Operators outside of `aten` are
    ignored: a user's operator may have the same name with other arguments."""
    if target.namespace != "aten" or name_of(target) not in _COMPARISONS or not isinstance(args[1], int | float):
        return None
    return float(args[1])


def decides(target: Any, dtype: torch.dtype | None, kwargs: dict[str, Any]) -> bool:
    """True if the operation is a step or a choice, including casts to integers."""
    name = name_of(target)
    to_integer = is_cast(target) and dtype is not None and not (dtype.is_floating_point or dtype.is_complex)
    return to_integer or name in _STEPS or name in _CHOICES or name in _POOLS or bool(kwargs.get("rounding_mode"))
