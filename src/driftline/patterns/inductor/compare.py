"""Compare results before and after the passes. A quick filter only: whether a difference is a bug is decided by the
oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

# In units of rounding: far below any rewrite that is wrong, far above a sum that is taken in another order.
_ROOM = {torch.float64: 1e6, torch.float32: 500.0, torch.bfloat16: 8.0, torch.float16: 16.0}


@dataclass(frozen=True)
class GraphDifference:
    kind: str  # wrong, dtype, shape
    detail: str


def difference(
    expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor], coarsest: torch.dtype, *, values: bool = True
) -> GraphDifference | None:
    """Return the first difference between the results, or None. `coarsest` is the dtype with the most rounding in the
    program."""
    if len(expected) != len(actual):
        return GraphDifference("shape", f"{len(actual)} results instead of {len(expected)}")
    for at, (want, got) in enumerate(zip(expected, actual, strict=True)):
        if want.dtype != got.dtype:
            return GraphDifference("dtype", f"result {at} is {got.dtype} instead of {want.dtype}")
        if want.shape != got.shape:
            return GraphDifference("shape", f"result {at} is {tuple(got.shape)} instead of {tuple(want.shape)}")
    for at, (want, got) in enumerate(zip(expected, actual, strict=True)):
        found = _values(want, got, coarsest) if values and want.numel() else ""
        if found:
            return GraphDifference("wrong", f"result {at}: {found}")
    return None


def _values(want: torch.Tensor, got: torch.Tensor, coarsest: torch.dtype) -> str:
    if want.is_quantized or want.is_sparse:
        return ""
    if not (want.dtype.is_floating_point or want.dtype.is_complex):
        return "" if torch.equal(want, got) else f"{int((want != got).sum())} of {want.numel()} numbers differ"
    wide = torch.complex128 if want.dtype.is_complex else torch.float64
    want, got = want.detach().to(wide), got.detach().to(wide)
    if not torch.equal(want.isnan(), got.isnan()):
        return f"{int((want.isnan() != got.isnan()).sum())} of {want.numel()} numbers are NaN on one side only"
    finite = want.isfinite() & got.isfinite()
    if not torch.equal(want[~finite & ~want.isnan()], got[~finite & ~got.isnan()]):
        return "infinities differ"
    if not finite.any():
        return ""
    error, scale = (want - got)[finite].abs().max().item(), want[finite].abs().max().item()
    room = _ROOM.get(coarsest, 500.0) * torch.finfo(coarsest).eps
    if error <= room * scale + torch.finfo(coarsest).tiny:
        return ""
    return f"off by {error:.3g} where the largest number is {scale:.3g}"


def coarsest_dtype(text: str, results: Sequence[torch.Tensor]) -> torch.dtype:
    """Return the dtype with the most rounding that the program's text names or its results have."""
    named = [dtype for dtype in (torch.bfloat16, torch.float16) if str(dtype) in text or ".half()" in text]
    given = [result.dtype for result in results if result.dtype in _ROOM]
    return max([*named, *given, torch.float32], key=lambda dtype: torch.finfo(dtype).eps)
