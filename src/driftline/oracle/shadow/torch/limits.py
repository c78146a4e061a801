"""Numbers of a program that its dtype rounds to zero: a limit of 1e-12 is zero in float16.

Other roundings are small relative to the number, and the noise model covers them. A number that vanishes changes the
meaning of the program: `x / norm.clamp_min(1e-12)` divides zero by zero in float16, and a compiler that keeps 1e-12
computes something else. So the float64 run uses zero there too.
"""

from __future__ import annotations

from typing import Any

import torch

from driftline.oracle.shadow.tape import TapeNode
from driftline.oracle.shadow.torch.rules import name_of

# Operations that copy a Python number to their result unchanged.
_PLACING = {
    "clamp", "clamp_max", "clamp_min", "clip", "fill", "full", "full_like", "hardtanh", "masked_fill", "new_full",
    "scalar_tensor", "threshold",
}  # fmt: skip


def with_vanished_limits(node: TapeNode) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of an operation, with zero for numbers that are zero in the dtype of its result."""
    dtype = node.dtypes[0] if node.dtypes else None
    if dtype is None or not dtype.is_floating_point or name_of(node.target) not in _PLACING:
        return node.args, node.kwargs

    def held(value: Any) -> Any:
        vanishes = isinstance(value, float) and value != 0 and float(torch.tensor(value, dtype=dtype)) == 0
        return 0.0 if vanishes else value

    return tuple(map(held, node.args)), {key: held(value) for key, value in node.kwargs.items()}
