"""What is unstable about one result: NaN, infinities, overflow, underflow, and distance from the float64 reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from driftline.core.tensors import Array, Arrays, is_float

KEPT_CLASSES = 4096  # elements of which each one's class is kept, so that runtimes can be compared place by place
_CLASSES = np.array([".", "n", "+", "-"])  # finite, NaN, Inf, -Inf


@dataclass(frozen=True)
class Counts:
    """Elements of all outputs, by what happened to them. `worst_error` is the largest relative error of a finite one;
    `classes` has a letter for each element: `.` finite, `n` NaN, `+` and `-` the infinities."""

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
    """Outputs are matched by place, since compilers name them as they like."""
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
    """For each element of a result, what is unstable about it; the last five are against float64."""

    nan: Array
    inf: Array
    overflow: Array
    underflow: Array
    apart: Array
    error: Array  # relative, of what is finite on both sides


def flags(got: Array, exact: Array | None) -> ElementFlags:
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
    """The relative error above which a result disagrees with float64: a hundredth, a tenth for half numbers. This is a
    count for people; what is wrong is said by the oracle, which knows how far rounding may go."""
    return 1e-1 if dtype in ("float16", "bfloat16") else 1e-2
