"""Programs of one operator, for `faulty_stages.py`. The first three stand for kernels that eager's library gets wrong.

The reference runs without oneDNN; everything else that computes with torch's kernels, with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

X = torch.linspace(0.1, 0.9, 24).reshape(4, 6)


def _with_library() -> bool:
    return bool(torch.backends.mkldnn.enabled)


def kernel_value(x: torch.Tensor = X) -> Any:
    return lambda x: x * (3 if _with_library() else 2), (x,)


def kernel_nan() -> Any:
    return lambda x: torch.where(x > 0.5, float("nan") if _with_library() else float("inf"), x), (X,)


def kernel_row() -> Any:
    return lambda x: torch.cat([x[:3], x[3:] * 0]) if _with_library() else x.clone(), (X,)


def both() -> Any:
    """Rows of the kernel are wrong, and a compiler that gets `cosh` wrong is wrong elsewhere."""
    return lambda x: torch.cat([x[:3].cosh(), x[3:] * (3 if _with_library() else 1)]), (X,)


def atan_and_sinh() -> Any:
    """The optimiser is wrong in the first result, the exporter in the second."""
    return lambda x: (x.atan(), x.sinh()), (X,)


def _of(function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return lambda x: function(x), (X,)


def cosh() -> Any:
    return _of(torch.cosh)


def log1p() -> Any:
    return _of(torch.log1p)


def erf() -> Any:
    return _of(torch.erf)


def sinh() -> Any:
    return _of(torch.sinh)


def acos() -> Any:
    return _of(torch.acos)


def atan() -> Any:
    return _of(torch.atan)


def floor() -> Any:
    return _of(lambda x: torch.floor(x * 8))


def neg() -> Any:
    return _of(torch.neg)


def relu() -> Any:
    return _of(lambda x: torch.relu(x - 0.5) + 1)
