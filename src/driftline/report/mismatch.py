"""Compare expected and actual outputs for display: the worst elements, and a small map of where an output is wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from driftline.core.evidence import Element, Evidence, Number
from driftline.core.short_numbers import telling_element
from driftline.core.tensors import Array, Arrays, is_float
from driftline.report.view import ErrorMap, Mismatch, PlaceView, Tensor

PLACES = 6  # rows of the table
BINS = 96  # bars of a plot
ROWS, COLUMNS = 20, 40  # cells of a map
TIMES = " \N{MULTIPLICATION SIGN}"
LARGEST = 1e6  # of ordinary numbers
EXACT = 1e12  # more roundings than this: an operation that does not round at all
LIMIT = 8.0  # roundings: beyond this an element is called wrong, where the oracle gives no count


def from_evidence(evidence: Evidence) -> Mismatch | None:
    """Return what is known without the arrays: the worst element; None if the evidence has none."""
    first = evidence.first
    if first is not None:
        row = PlaceView(_index(first.place), _told(first.expected), _told(first.got), _distance(evidence))
    elif evidence.wanted and evidence.came:
        row = PlaceView("", ", ".join(evidence.wanted), ", ".join(evidence.came), "")
    else:
        return None
    return Mismatch(evidence.output, "", (), evidence.wrong, evidence.elements, (row,), _unit(evidence))


def from_arrays(expected: Arrays, got: Arrays, evidence: Evidence) -> Mismatch | None:
    """Compare the output that the evidence names, or the first output that differs. None if there is nothing to
    compare.
    """
    names = [name for name in expected if name in got and expected[name].shape == got[name].shape]
    named = [name for name in names if name == evidence.output]
    differing = [name for name in names if expected[name].tobytes() != got[name].tobytes()]
    for name in named or differing:
        if expected[name].size:
            return _compare(name, expected[name], got[name], evidence)
    return None


def _compare(name: str, expected: Array, got: Array, evidence: Evidence) -> Mismatch:
    with np.errstate(all="ignore"):
        error, apart, words = _errors(expected, got, evidence)
    limit = LIMIT if words else 0.5
    rank = np.where(apart, np.inf, np.nan_to_num(error, nan=0.0, posinf=np.finfo(np.float64).max))
    telling = _flat(telling_element(evidence.worst, evidence.fault), expected.shape)  # the element that the title names
    judged = [_flat(one, expected.shape) for one in evidence.worst]
    first = [at for at in (telling, *judged) if at is not None]
    order = [*first, *(int(i) for i in np.argsort(-rank.reshape(-1), kind="stable"))]
    places = []
    most = min(PLACES, evidence.wrong or PLACES)  # other differences may be allowed by the specification
    for flat in list(dict.fromkeys(order))[:most]:
        at = np.unravel_index(flat, expected.shape)
        if rank[at] <= 0 or (rank[at] <= limit and flat not in first):
            break
        off = "NaN or Inf" if apart[at] else _times(error[at]) if words else _short(error[at])
        places.append(PlaceView(_index(at), _value(expected[at]), _value(got[at]), off))
    counted = evidence.wrong
    wrong = counted or int((rank > limit).sum())
    grid = _grid(error, apart, words or "difference", limit) if expected.size > 1 else None
    shape = tuple(int(size) for size in expected.shape)
    return Mismatch(
        name,
        expected.dtype.name,
        shape,
        wrong,
        expected.size,
        tuple(places),
        words,
        grid,
        estimated=not counted and bool(words),
    )


def _told_place(evidence: Evidence, shape: tuple[int, ...]) -> int | None:
    """Return the flat index of the element that the verdict calls wrong."""
    return _flat(evidence.first, shape)


def _flat(element: Element | None, shape: tuple[int, ...]) -> int | None:
    """Return the flat index of an element, or None if the output has no such element."""
    place = element.place if element else None
    if place is None or len(place) != len(shape):
        return None
    if any(not 0 <= int(i) < size for i, size in zip(place, shape, strict=True)):
        return None
    return int(np.ravel_multi_index(tuple(int(i) for i in place), shape)) if shape else 0


def _errors(expected: Array, got: Array, evidence: Evidence) -> tuple[Array, Array, str]:
    """Return the error of each element, a mask of the elements where NaN or Inf disagree, and the unit of the errors
    (empty for integers).
    """
    dtype = expected.dtype.name
    if not is_float(dtype) and expected.dtype.kind != "c":
        difference = np.abs(expected.astype(np.float64) - got.astype(np.float64))
        difference = np.where((difference == 0) & (expected != got), 1.0, difference)
        return difference, np.zeros(expected.shape, dtype=bool), ""
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    right, value = expected.astype(wide), got.astype(wide)
    apart = _class(right) != _class(value)
    both = np.isfinite(right) & np.isfinite(value)
    error = np.where(both, np.abs(value - right), 0.0)
    size = np.where(both, np.abs(right), 0.0)
    import ml_dtypes

    part = ml_dtypes.finfo(expected.real.dtype if expected.dtype.kind == "c" else expected.dtype)
    largest = float(part.eps) / 2 * float(size.max()) or float(part.smallest_normal)
    rounding, place = _rounding(evidence), _told_place(evidence, expected.shape)
    there = 0.0
    if place is not None:
        there = float(size.reshape(-1)[place])
        # The verdict measured this one against float64, which may be a little beside the expected value.
        error.reshape(-1)[place] = _number(evidence.error) or error.reshape(-1)[place]
    if rounding and (there or rounding > 1e-9 * largest):  # a zero that is exact has no rounding to be measured by
        # What rounding does is known at one place; larger elements are granted as much in proportion.
        unit = rounding * np.maximum(1.0, size / there) if there else np.full(size.shape, rounding)
        where = f" at {_index(evidence.first.place)}" if place is not None and evidence.first else ""
        return error / unit, apart, f"legal rounding ({_short(rounding)}{where})"
    return error / largest, apart, f"rounding of the largest element ({_short(largest)})"


def _rounding(evidence: Evidence) -> float:
    """Return the legal rounding at the verdict's element: measured, or derived from the allowed error, so that an
    element becomes wrong at the same limit.
    """
    return _number(evidence.sigma) or (_number(evidence.allowed) or 0.0) / LIMIT


def _grid(error: Array, apart: Array, words: str, limit: float) -> ErrorMap:
    """Fold the errors to two dimensions; each cell of the map holds the worst of its elements."""
    flat = np.where(apart, np.inf, error)
    columns = flat.shape[-1] if flat.ndim > 1 else flat.size
    table = flat.reshape(-1, columns) if flat.ndim > 1 else flat.reshape(1, -1)
    table = _shrink(table.reshape(1, -1), 1, BINS) if 1 in table.shape else _shrink(table, ROWS, COLUMNS)
    cells = tuple(None if math.isinf(cell) else float(f"{cell:.3g}") for cell in table.reshape(-1))
    return ErrorMap(table.shape[0], table.shape[1], cells, words, limit)


def _shrink(table: Array, rows: int, columns: int) -> Array:
    for axis, most in ((0, rows), (1, columns)):
        size = table.shape[axis]
        if size > most:
            starts = np.unique(np.arange(most) * size // most)
            table = np.maximum.reduceat(table, starts, axis=axis)
    return table


def describe_tensor(name: str, array: Array) -> Tensor:
    """Describe an input in one line, with every value if there are few."""
    shape = tuple(int(size) for size in array.shape)
    flat = array.reshape(-1)
    if array.size == 0:
        text = "no elements"
    elif array.size <= 12:
        text = _nested(array)
    else:
        text = f"{_range(flat)}; begins {', '.join(_value(v) for v in flat[:5])}, …"
    return Tensor(name, array.dtype.name, shape, text)


def is_ordinary(arrays: Arrays) -> bool:
    """True if all numbers are ordinary: no NaN, no infinity, nothing beyond a million, and no float closer to zero than
    a millionth, except zero.
    """
    for array in arrays.values():
        if is_float(array.dtype.name) or array.dtype.kind == "c":
            size = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
            small = (size > 0) & (size < 1 / LARGEST)
            if not np.isfinite(size).all() or (size > LARGEST).any() or small.any():
                return False
        elif array.dtype.kind in "iu" and array.size and max(int(array.max()), -int(array.min())) > LARGEST:
            return False
    return True


def _range(flat: Array) -> str:
    if flat.dtype.kind == "b":
        return f"{int(flat.sum())} of {flat.size} true"
    if flat.dtype.kind == "c":
        return f"{flat.size:,} complex numbers"
    if not is_float(flat.dtype.name):
        return f"{flat.min()} to {flat.max()}"
    numbers = flat.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    parts = [f"{finite.min():.4g} to {finite.max():.4g}"] if finite.size else []
    parts += [f"{count} NaN" for count in [int(np.isnan(numbers).sum())] if count]
    parts += [f"{count} Inf" for count in [int(np.isinf(numbers).sum())] if count]
    return ", ".join(parts)


def _nested(array: Array) -> str:
    if array.ndim == 0:
        return _value(array[()])
    return "[" + ", ".join(_nested(item) for item in array) + "]"


def _value(value: Any) -> str:
    if isinstance(value, (np.complexfloating, complex)):
        return str(value)
    if getattr(value, "dtype", None) is not None and is_float(value.dtype.name):
        digits = 17 if value.dtype.name == "float64" else 9 if value.dtype.name == "float32" else 5
        short = str(value) if value.dtype.name in ("float64", "float32", "float16") else f"{float(value):.{digits}g}"
        return short if len(short) <= digits + 7 else f"{float(value):.{digits}g}"
    return str(value)


def _short(number: Any) -> str:
    return f"{float(number):.3g}"


def _told(value: Number) -> str:
    return f"{value:.9g}" if isinstance(value, float) and math.isfinite(value) and len(repr(value)) > 14 else str(value)


def _distance(evidence: Evidence) -> str:
    error, rounding = _number(evidence.error), _rounding(evidence)
    if not error or not rounding:
        return ""
    return _times(error / rounding) if error / rounding < EXACT else _short(error)


def _unit(evidence: Evidence) -> str:
    error, rounding = _number(evidence.error), _rounding(evidence)
    return f"legal rounding ({_short(rounding)} there)" if rounding and error and error / rounding < EXACT else ""


def _times(ratio: Any) -> str:
    return (f"{float(ratio):,.0f}" if 10 <= ratio < 1e6 else _short(ratio)) + TIMES


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _index(place: Any) -> str:
    return f"[{', '.join(str(int(i)) for i in place)}]"


def _class(values: Array) -> Array:
    """Classify each element: 0 finite, 1 NaN, 2 +Inf, 3 -Inf. Complex numbers combine the classes of both parts."""
    if values.dtype.kind == "c":
        return 4 * _class(values.real) + _class(values.imag)
    return np.where(np.isnan(values), 1, np.where(np.isposinf(values), 2, np.where(np.isneginf(values), 3, 0)))
