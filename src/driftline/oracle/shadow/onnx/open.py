"""Find where the ONNX specification leaves results open: the clauses that apply to a node and the affected elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.arithmetic import IEEE
from driftline.oracle.noise import finite_size
from driftline.oracle.shadow.decisions import DRAWN, other_places
from driftline.oracle.shadow.marks import marks_of
from driftline.oracle.shadow.onnx.readings import readings_of
from driftline.oracle.shadow.open_runs import Reading
from driftline.oracle.specification import clauses_of

# Replacements for open elements in the runs that show which outputs depend on them: small and large, positive and
# negative, odd and even. Floats are also replaced by NaN, and by the result of a comparison that every NaN loses.
NAN, NAN_LOSES = "nan", "nan loses"
ALTERNATIVES = (3, -7, 0, 2**62, -(2**62), 0x5555555555555555, -0x5555555555555555, NAN, NAN_LOSES)
_FAR_FROM_LARGEST = 1e70  # sums of products of four such numbers are finite doubles
_LOSERS = {
    **dict.fromkeys(("Max", "ReduceMax", "MaxPool", "GlobalMaxPool"), -np.inf),
    **dict.fromkeys(("Min", "ReduceMin"), np.inf),
}


def index_range(node: Any, inputs: list[Any]) -> int:
    """Return the number of indices among which the node chooses, or 0 if it makes no choice.

    An operation that compares the choice with one index depends on it for some indices only, so every index must be
    tried.
    """
    if node.op_type not in ("ArgMax", "ArgMin", "TopK"):
        return 0
    axis = getattr(node, "axis", None)
    default = -1 if node.op_type == "TopK" else 0
    return max(inputs[0].shape[default if axis is None else int(axis)], 1) if inputs[0].ndim else 1


def open_elements(node: Any, inputs: list[Any], result: Any, dtype: str) -> tuple[str, Array] | None:
    """Return the first clause that applies to this node for these values, and a mask of the elements of its result that
    any clause leaves open, or `None`. `dtype` is the float type in which the program stores the result, or an empty
    string."""
    if not isinstance(result, np.ndarray) or not result.size:
        return None
    inputs = [_as_stored(value, dtype) for value in inputs]
    found: tuple[str, Array] | None = None
    for clause in clauses_of("onnx", str(node.op_type)):
        mask = _RULES[clause.id](node, inputs, result) if clause.id in _RULES else None
        if mask is not None and bool(mask.any()):
            found = (found[0], found[1] | mask) if found else (clause.id, mask)
    return found


def _as_stored(value: Any, dtype: str) -> Any:
    """Return the value with infinities where its numbers exceed the range of the program's type."""
    if not dtype or not isinstance(value, np.ndarray) or value.dtype != np.float64 or dtype.startswith("complex"):
        return value
    beyond = np.abs(value) > IEEE.largest(dtype)
    return np.where(beyond, np.copysign(np.inf, value), value) if beyond.any() else value


def _cast(node: Any, inputs: list[Any], result: Array) -> Array | None:
    source = inputs[0]
    if result.dtype.kind not in "iu" or source.dtype.kind != "f":
        return None
    limits = np.iinfo(result.dtype)
    whole = np.trunc(source)
    # 2^63 - 1 is not a float, so the upper end is compared with the power of two above it
    return np.asarray(np.isnan(whole) | (whole < float(limits.min)) | (whole >= float(limits.max) + 1.0))


def _division(node: Any, inputs: list[Any], result: Array) -> Array | None:
    if result.dtype.kind not in "iu":
        return None
    return np.broadcast_to(np.asarray(inputs[1]) == 0, result.shape)


def _power(node: Any, inputs: list[Any], result: Array) -> Array | None:
    if result.dtype.kind not in "iu":
        return None
    base, exponent = (np.asarray(value).astype(np.float64) for value in inputs[:2])
    limits = np.iinfo(result.dtype)
    with np.errstate(all="ignore"):
        whole = np.power(base, exponent)
    out = (whole < float(limits.min)) | (whole >= float(limits.max) + 1.0) | (exponent < 0) | np.isnan(whole)
    return np.broadcast_to(out, result.shape)


def _unbounded(node: Any, inputs: list[Any], result: Array) -> Array | None:
    given = [len(inputs) > at and inputs[at] is not None for at in (1, 2)]
    if all(given) or result.dtype.kind != "f":
        return None
    return np.asarray(np.isinf(inputs[0]))


def _overflow(node: Any, inputs: list[Any], result: Array) -> Array | None:
    """Return a mask of the elements where the operation, repeated on doubles, leaves the range of the integer type."""
    if result.dtype.kind not in "iu":
        return None
    limits = np.iinfo(result.dtype)
    elementwise = node.op_type in ("Abs", "Add", "Mul", "Neg", "Sub", "Sum")
    numbers = inputs if elementwise else inputs[: 2 if node.op_type in ("MatMul", "Gemm") else 1]
    doubles = [np.asarray(value).astype(np.float64) for value in numbers]
    whole = np.asarray(node.run(*doubles, *inputs[len(numbers) :])[0])
    return (whole < float(limits.min)) | (whole >= float(limits.max) + 1.0)


def _partial_overflow(node: Any, inputs: list[Any], result: Array) -> Array | None:
    """Return a mask of the results that are not finite although the terms are finite doubles: a partial sum may
    overflow. Programs in smaller floats are not affected, since their shadow computes in float64."""
    if result.dtype.kind != "f" or bool(np.isfinite(result).all()):
        return None
    sizes = [finite_size(v) if isinstance(v, np.ndarray) and v.dtype.kind == "f" else v for v in inputs]
    few = node.op_type != "ReduceProd" and len(sizes) <= 4
    if few and all(size is None or np.max(size, initial=0) < _FAR_FROM_LARGEST for size in sizes):
        return None
    peak = node.run(*sizes)[0]
    return ~np.isfinite(result) & np.isinf(peak)


def _of_nothing(node: Any, inputs: list[Any], result: Array) -> Array | None:
    return np.ones(result.shape, dtype=bool) if not inputs[0].size else None


def _padded(node: Any, inputs: list[Any], result: Array) -> Array | None:
    plain = node.op_type == "Conv" and not any(node.pads or ()) and all(step == 1 for step in node.dilations or ())
    auto = getattr(node, "auto_pad", None) in ("SAME_UPPER", "SAME_LOWER")
    finite = all(bool(np.isfinite(value).all()) for value in inputs[:2] if value.dtype.kind == "f")
    if finite or (plain and not auto):
        return None
    dilated = any(step != 1 for step in node.dilations or ())
    if node.op_type != "Conv" or dilated or not bool(np.isfinite(inputs[1]).all()):
        return np.ones(result.shape, dtype=bool)
    return np.asarray(node.run(marks_of(inputs[0]), np.ones_like(inputs[1]))[0]) != 0


def _shift(node: Any, inputs: list[Any], result: Array) -> Array | None:
    return np.broadcast_to(np.asarray(inputs[1]) >= np.iinfo(result.dtype).bits, result.shape)


def _nan_compared(node: Any, inputs: list[Any], result: Array) -> Array | None:
    """Return a mask of the elements whose comparison involves a NaN. For pooling and reductions, the operator is run on
    a mask of NaNs."""
    if not any(_has_nan(value) for value in inputs):
        return None
    name = node.op_type
    if name.startswith("Scatter"):
        reduced = getattr(node, "reduction", None) in ("max", "min", b"max", b"min")
        sign = -1.0 if getattr(node, "reduction", None) in ("min", b"min") else 1.0
        odd = [sign * np.isnan(inputs[at]) for at in (0, 2)]
        return np.asarray(node.run(odd[0], inputs[1], odd[1])[0]) * sign > 0 if reduced else None
    if name in ("Max", "Min", "Clip", "Relu", "Celu", "HardSigmoid"):
        mask = np.zeros(result.shape, dtype=bool)
        for value in inputs:
            mask |= np.isnan(value) if _has_nan(value) else False
        return mask
    marks = np.isnan(inputs[0])
    if name == "Unique":
        return np.ones(result.shape, dtype=bool)
    if name == "Hardmax":
        return np.broadcast_to(marks.any(axis=-1 if node.axis is None else int(node.axis), keepdims=True), result.shape)
    if name in ("ArgMax", "ArgMin", "TopK"):
        default = -1 if name == "TopK" else 0
        axis = default if node.axis is None else int(node.axis)
        along = np.any(marks, axis=axis, keepdims=result.ndim == marks.ndim)
        return np.broadcast_to(along, result.shape)
    sign = -1.0 if name == "ReduceMin" else 1.0
    found = np.asarray(node.run(sign * marks, *inputs[1:])[0])
    return found * sign > 0


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _has_nan(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and bool(np.isnan(value).any())


def _not_finite(node: Any, inputs: list[Any], result: Array) -> Array | None:
    """Return a mask of the elements that a NaN or infinity of the input may reach: neighbours in an interpolation, all
    in a transform."""
    source = inputs[0]
    if not isinstance(source, np.ndarray) or source.dtype.kind != "f":
        return None
    window = node.op_type == "STFT" and len(inputs) > 2 and inputs[2] is not None and not np.isfinite(inputs[2]).all()
    if bool(np.isfinite(source).all()) and not window:
        return None
    if node.op_type == "QuantizeLinear":
        return np.broadcast_to(~np.isfinite(source), result.shape)
    if getattr(node, "mode", None) in ("nearest", b"nearest"):  # there are no weights
        return None
    if node.op_type in ("Resize", "Upsample", "GridSample") and all(
        bool(np.isfinite(value).all()) for value in inputs[1:] if _is_float(value)
    ):
        reached = node.run(marks_of(source, range(source.ndim)), *inputs[1:])[0]
        return np.asarray(reached) != 0
    if node.op_type == "DFT":
        given = int(np.asarray(inputs[2])) if len(inputs) > 2 and inputs[2] is not None else getattr(node, "axis", None)
        axis = (1 if given is None else int(given)) % source.ndim
        odd = ~np.isfinite(source).all(axis=(axis, source.ndim - 1), keepdims=True)
        return np.broadcast_to(odd, result.shape) if given is not None else np.ones(result.shape, dtype=bool)
    return np.ones(result.shape, dtype=bool)


def _contracted(node: Any, inputs: list[Any], result: Array) -> Array | None:
    """Return a mask of the results that are not finite in a product of three or more operands."""
    if len(inputs) < 3 or result.dtype.kind != "f" or bool(np.isfinite(result).all()):
        return None
    return ~np.isfinite(result)


def _sloped(node: Any, inputs: list[Any], result: Array) -> Array | None:
    """Return a mask of the elements where zero is multiplied by an infinite slope. The operator itself is run to
    broadcast the slope."""
    x, slope = inputs[:2]
    if result.dtype.kind != "f" or bool(np.isfinite(slope).all()):
        return None
    multiplied = node.run(-np.ones_like(x), np.where(np.isfinite(slope), 1.0, np.nan))[0]
    return (x == 0) & np.isnan(multiplied)


def _nan(node: Any, inputs: list[Any], result: Array) -> Array | None:
    return np.isnan(inputs[0]) if _has_nan(inputs[0]) else None


def _scatter(node: Any, inputs: list[Any], result: Array) -> Array | None:
    """Return a mask of the elements that several updates write to without a reduction."""
    if getattr(node, "reduction", None) not in (None, "none", b"none"):
        return None
    indices, written = np.asarray(inputs[1]), np.zeros(result.shape, dtype=np.int64)
    if node.op_type == "ScatterND":
        np.add.at(written, tuple(np.moveaxis(indices, -1, 0)), 1)
    else:
        places: list[Array] = list(np.indices(indices.shape))
        places[int(getattr(node, "axis", 0) or 0)] = indices
        np.add.at(written, tuple(places), 1)
    return written > 1


_RULES: dict[str, Callable[[Any, list[Any], Array], Array | None]] = {
    "onnx.cast-out-of-range": _cast,
    "onnx.integer-division-by-zero": _division,
    "onnx.power-out-of-range": _power,
    "onnx.shift-beyond-width": _shift,
    "onnx.nan-in-max-min": _nan_compared,
    "onnx.clip-without-bound": _unbounded,
    "onnx.integer-overflow": _overflow,
    "onnx.partial-overflow": _partial_overflow,
    "onnx.mean-of-nothing": _of_nothing,
    "onnx.padded-infinity": _padded,
    "onnx.interpolated-infinity": _not_finite,
    "onnx.quantised-infinity": _not_finite,
    "onnx.transformed-infinity": _not_finite,
    "onnx.scatter-duplicates": _scatter,
    "onnx.einsum-order": _contracted,
    "onnx.infinite-slope": _sloped,
    "onnx.sign-of-nan": _nan,
}


def replaced(
    node: Any, inputs: list[Any], result: Array, mask: Array, alternative: int | str | Array | Reading, dtype: str = ""
) -> Array:
    """Return the result with its open elements replaced by `alternative`. Indices are replaced by other valid indices
    only."""
    if isinstance(alternative, Reading):
        known = readings_of(node, inputs, result, dtype)
        return np.where(mask, alternative.of(known), result) if known else result
    count = index_range(node, inputs)
    if isinstance(alternative, np.ndarray):
        return result if count and result.dtype.kind == "i" else np.where(mask, alternative, result)
    if alternative == NAN_LOSES:
        worst = _LOSERS.get(node.op_type)
        if worst is None or result.dtype.kind != "f":
            return result
        compared = [np.where(np.isnan(v), worst, v) if _has_nan(v) else v for v in inputs]
        return np.where(mask, np.asarray(node.run(*compared)[0]), result)
    if isinstance(alternative, str):
        return np.where(mask, np.nan, result) if result.dtype.kind == "f" else result
    value: Any = alternative
    if count and result.dtype.kind == "i":
        value = other_places(result.shape, count, abs(alternative) % (count + DRAWN))
    elif result.dtype.kind in "iu":
        limits = np.iinfo(result.dtype)
        value = min(max(alternative, int(limits.min)), int(limits.max))
    return np.where(mask, np.asarray(value).astype(result.dtype), result)
