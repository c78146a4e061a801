"""Count what is unstable in a result: NaN, infinities, overflow, underflow, and distance from the float64 reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from driftline.core.tensors import Array, Arrays, is_float

KEPT_CLASSES = 4096  # elements of which each one's class is kept, so that runtimes can be compared place by place
_CLASSES = np.array([".", "n", "+", "-"])  # finite, NaN, Inf, -Inf


@dataclass(frozen=True)
class Counts:
    """Numbers of elements over all outputs, by kind of instability. `worst_error` is the largest relative error of a
    finite element. `classes` has one letter for each element: `.` finite, `n` NaN, `+` and `-` for infinities; it is
    empty for large results."""

    elements: int = 0
    nan: int = 0
    inf: int = 0
    overflow: int = 0
    underflow: int = 0
    disagreements: int = 0
    worst_error: float = 0.0
    classes: str = ""


NOTHING_COUNTED = Counts()


def count(got: Arrays, exact: Arrays | None) -> Counts:
    """Count the unstable elements of the outputs `got`, compared with `exact` if given. Outputs are paired by position,
    because compilers rename them."""
    wanted: list[Array | None] = list(exact.values()) if exact and len(exact) == len(got) else [None] * len(got)
    parts = [
        _counted(array, _fitting(array, right))
        for array, right in zip(got.values(), wanted, strict=True)
        if is_float(array.dtype.name)
    ]
    classes = "".join(part.classes for part in parts)
    summed = {name: sum(getattr(part, name) for part in parts) for name in _SUMMED}
    worst = max((part.worst_error for part in parts), default=0.0)
    return Counts(**summed, worst_error=worst, classes=classes if len(classes) <= KEPT_CLASSES else "")


_SUMMED = ("elements", "nan", "inf", "overflow", "underflow", "disagreements")


def _fitting(array: Array, right: Array | None) -> Array | None:
    return right if right is not None and right.shape == array.shape and right.dtype.kind == "f" else None


@dataclass(frozen=True)
class ElementFlags:
    """For each element of a result, whether it is unstable in a given way. All but `nan` and `inf` compare with
    float64."""

    nan: Array
    inf: Array
    overflow: Array
    underflow: Array
    apart: Array
    error: Array  # relative error of elements that are finite on both sides


def flags(got: Array, exact: Array | None) -> ElementFlags:
    """Classify each element of `got`. Without `exact`, only `nan` and `inf` are filled in."""
    import ml_dtypes

    info: Any = ml_dtypes.finfo(got.dtype)
    smallest = float(info.smallest_normal)
    with np.errstate(all="ignore"):
        value = got.astype(np.float64)
        nan, inf = np.isnan(value), np.isinf(value)
        none = np.zeros(value.shape, bool)
        if exact is None:
            return ElementFlags(nan, inf, none, none, none, np.zeros(value.shape))
        right = exact.astype(np.float64)
        stored = right.astype(got.dtype).astype(np.float64)  # the float64 result in the program's dtype
        overflow = inf & np.isfinite(right)
        underflow = (np.abs(value) < smallest) & np.isfinite(right) & (right != 0)
        error = np.abs(value - stored) / np.maximum(np.abs(stored), smallest)
        error = np.where(np.isfinite(value) & np.isfinite(stored), error, 0.0)
        apart = (nan != np.isnan(stored)) | (inf != np.isinf(stored)) | (inf & (value != stored))
        apart |= error > tolerated(got.dtype.name)
    return ElementFlags(nan, inf, overflow, underflow, apart, error)


def _counted(got: Array, exact: Array | None) -> Counts:
    found = flags(got, exact)
    with np.errstate(all="ignore"):
        sort = np.where(found.nan, 1, np.where(found.inf, np.where(got.astype(np.float64) > 0, 2, 3), 0))
    classes = "".join(_CLASSES[sort.reshape(-1)]) if got.size <= KEPT_CLASSES else " " * (KEPT_CLASSES + 1)
    return Counts(
        got.size,
        int(found.nan.sum()),
        int(found.inf.sum()),
        int(found.overflow.sum()),
        int(found.underflow.sum()),
        int(found.apart.sum()),
        float(found.error.max(initial=0.0)),
        classes,
    )


def tolerated(dtype: str) -> float:
    """Return the relative error above which an element counts as disagreeing with float64: 0.1 for float16 and
    bfloat16, else 0.01. For statistics only: the oracle, which knows the rounding error bounds, decides what is
    wrong."""
    return 1e-1 if dtype in ("float16", "bfloat16") else 1e-2
