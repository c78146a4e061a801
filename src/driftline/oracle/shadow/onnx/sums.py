"""Rules for ONNX operators that add up many terms: matrix products, convolutions, reductions, interpolations.

The noise model needs the sum of the squared terms, which the operator itself computes: applied to squared arguments, a
sum of products is the sum of the squared products. Applied to ones, it counts the terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from driftline.core.tensors import Array
from driftline.oracle.left_to_right import product_error, sum_error
from driftline.oracle.noise import (
    Joint,
    Products,
    RepeatedError,
    finite_size,
    overflowing,
    repeated_error,
    summed,
    together,
    transposed_terms,
)
from driftline.oracle.shadow.call import Call
from driftline.oracle.shadow.conditioning import carried
from driftline.oracle.shadow.onnx.pools import windows

OnnxSumRule = Callable[[Call], list[Array]]


def _is_real(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _again(call: Call, change: Callable[[Array], Array]) -> Array:
    """Run the operator again on changed float arguments."""
    result: Array = np.asarray(call.target.run(*[change(a) if _is_real(a) else a for a in call.args])[0])
    return result


def _summed(call: Call, squares: Array, terms: float, divisor: float = 1.0, stored: bool = False) -> Array:
    """Return the size of the error of a sum. `divisor`: what the sum is divided by at the end, for a mean. `stored`:
    every partial sum is rounded to the type of the result."""
    size = summed(call.results[0], squares, terms, call.unit() if stored else call.accumulator())
    with np.errstate(all="ignore"):
        bound = np.sqrt(squares * terms) * divisor
    if bool((bound > call.largest_sum()).any()):
        size = overflowing(size, _again(call, finite_size) * divisor, call.largest_sum())
    return size


def _sum_of_products(call: Call, squares: Array, terms: float) -> list[Array]:
    size = _summed(call, squares, terms)
    if call.product():  # each factor is rounded before it is multiplied
        size = together(size, 2 * call.product() * np.sqrt(np.maximum(squares, 0.0)))
    return [size]


def _added_products(call: Call) -> list[Array]:
    found = call.products or products_of(call)
    assert found is not None, f"{call.target.op_type} is no sum of products"
    return _sum_of_products(call, found.squares, found.terms)


def products_of(call: Call) -> Products | None:
    """Return the products that an operator adds up, including its own addend, or `None` if it is no sum of products."""
    rule = _PRODUCTS.get(str(call.target.op_type))
    return rule(call) if rule else None


def _matmul(call: Call) -> Products:
    return Products(_again(call, np.square), float(call.args[0].shape[-1] if call.args[0].ndim else 1))


def _gemm(call: Call) -> Products:
    squares, terms, added = _gemm_squares(call), _gemm_terms(call), _added(call)
    return Products(squares, terms) if added is None else Products(squares + np.square(added), terms + 1)


def _gemm_squares(call: Call) -> Array:
    """Return the sum of the squared products without the addend. The operator itself cannot compute it: alpha is
    squared too."""
    a, b = (np.square(m.T if call.kwargs.get(t) else m) for m, t in zip(call.args, ("transA", "transB"), strict=False))
    return _number(call, "alpha") ** 2 * np.asarray(a @ b)


def _gemm_terms(call: Call) -> float:
    return float(call.args[0].shape[0 if call.kwargs.get("transA") else -1])


def _number(call: Call, name: str) -> float:
    """Return the attribute alpha or beta, or 1 if it is missing."""
    given = call.kwargs.get(name)
    return 1.0 if given is None else float(given)


def _convolution(call: Call) -> Products:
    return Products(_again(call, np.square), _convolution_terms(call) + (_added(call) is not None))


def _convolution_terms(call: Call) -> float:
    weight = call.args[1]
    if call.target.op_type == "ConvTranspose":
        sides = weight.ndim - 2
        strides, dilations = (call.kwargs.get(name) or [1] * sides for name in ("strides", "dilations"))
        return transposed_terms(weight.shape, call.kwargs.get("group") or 1, strides, dilations)
    return float(weight.size / max(weight.shape[0], 1))


def _convolution_squares(call: Call) -> Array:
    """Return the sum of the squared products without the addend."""
    given = [np.square(a) if _is_real(a) else a for a in call.args[:2]]
    return np.asarray(call.target.run(*given, np.zeros_like(call.args[2]))[0])


def _added(call: Call) -> Array | None:
    """Return the addend of a sum of products, broadcast to the shape of the result, or `None`."""
    if len(call.args) < 3 or call.args[2] is None:
        return None
    result, addend = call.results[0], call.args[2]
    if call.target.op_type == "Gemm":
        addend = addend * _number(call, "beta")
    else:
        addend = addend.reshape(-1, *[1] * (result.ndim - 2))
    return np.broadcast_to(addend, result.shape)


_PRODUCTS: dict[str, Callable[[Call], Products]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _convolution,
    "ConvTranspose": _convolution,
}


def _repeated(terms: Callable[[Call], float], squares: Callable[[Call], Array]) -> Callable[[Call], Joint | None]:
    """Return a rule for the error that repeats in every element of a sum of products with an addend."""

    def rule(call: Call) -> Joint | None:
        added = _added(call)
        found = None
        if added is not None:
            found = repeated_error(call.results[0], added, lambda: squares(call), terms(call), call.accumulator())
        return found or _products_in_order(call)

    return rule


def _products_in_order(call: Call) -> Joint | None:
    """Return the error of adding the products of a MatMul or Gemm one after the other."""
    if call.target.op_type not in ("Gemm", "MatMul"):
        return None
    flipped = (call.kwargs.get("transA"), call.kwargs.get("transB"))
    left, right = (m.T if flip else m for m, flip in zip(call.args[:2], flipped, strict=True))
    error = product_error(left, right, call.accumulating())
    if error is None or error.shape != call.results[0].shape:
        return None
    return RepeatedError(error * (_number(call, "alpha") if call.target.op_type == "Gemm" else 1.0))


def _einsum(call: Call) -> list[Array]:
    terms = float(np.max(_again(call, np.ones_like), initial=1.0))
    return _sum_of_products(call, _again(call, np.square), terms)


def _counted_sum(call: Call) -> list[Array]:
    """Return the error of sums into selected elements: scatter with addition, and overlapping columns."""
    if call.kwargs.get("reduction") == "mul":
        return [call.unit() * 4 * np.abs(call.results[0])]
    terms = float(np.max(_again(call, np.ones_like), initial=1.0))
    return [_summed(call, _again(call, np.square), terms, stored=True)]


def _reduced(call: Call) -> float:
    """Return the number of elements that are reduced to one result."""
    return max(float(call.args[0].size / max(call.results[0].size, 1)), 1.0)


def _sum(call: Call) -> list[Array]:
    return [_summed(call, _again(call, np.square), _reduced(call))]


def _mean(call: Call) -> list[Array]:
    count = _reduced(call)
    return [_summed(call, _again(call, np.square) / count, count, divisor=count)]


def _reduced_axes(call: Call) -> tuple[int, ...]:
    """Return the axes over which a reduction or a global pool adds up."""
    x = call.args[0]
    if str(call.target.op_type).startswith("Global"):
        return tuple(range(2, x.ndim))
    given = call.args[1] if len(call.args) > 1 and call.args[1] is not None else call.kwargs.get("axes")
    named = [] if given is None else [int(axis) for axis in np.asarray(given).reshape(-1)]
    if not named and call.kwargs.get("noop_with_empty_axes"):
        return ()
    return tuple(named) or tuple(range(x.ndim))


def _in_order(call: Call) -> Joint | None:
    """Return the error of adding the elements one after the other: a legal order, in which all sums may err the same
    way."""
    axes, result = _reduced_axes(call), call.results[0]
    error = sum_error(call.args[0], axes, call.accumulating()) if axes else None
    if error is None or error.size != result.size:
        return None
    divisor = 1.0 if call.target.op_type == "ReduceSum" else _reduced(call)
    return RepeatedError(error.reshape(result.shape) / divisor)


def _windows_in_order(call: Call) -> Joint | None:
    """Return the error of adding the elements of each window of an average pool one after the other, or `None` if the
    windows computed here differ from the operator's."""
    x, result = call.args[0], call.results[0]
    views, axes = windows(x, call.kwargs, 0.0)
    error = sum_error(views, axes, call.accumulating())
    if error is None or error.size != result.size:
        return None
    present, _ = windows(np.ones(x.shape), call.kwargs, 0.0)
    return RepeatedError((error / np.maximum(np.sum(present, axis=axes, keepdims=True), 1.0)).reshape(result.shape))


def _positive_sum(call: Call) -> list[Array]:
    """Return the error of sums of absolute values or squares, or of their roots: all terms have one sign."""
    return [call.accumulator() * 2 * math.sqrt(_reduced(call)) * np.abs(call.results[0])]


def _log_sum(call: Call) -> list[Array]:
    """Return the error of the logarithm of a sum: the relative error of the sum becomes an absolute error."""
    return [np.full(call.results[0].shape, call.accumulator() * 2 * math.sqrt(_reduced(call)))]


def _product(call: Call) -> list[Array]:
    """Return the error of a product, a relative error per factor; NaN where some order of the factors overflows or
    underflows."""
    size = call.accumulator() * math.sqrt(_reduced(call)) * np.abs(call.results[0])
    size = overflowing(size, _again(call, lambda x: np.maximum(finite_size(x), 1.0)), call.largest_sum())
    small = _again(call, lambda x: np.minimum(np.where(x == 0, 1.0, np.abs(x)), 1.0))
    return [overflowing(size, 1.0 / small, call.largest_sum())]


def _along(call: Call) -> float:
    x, axis = call.args[0], int(np.asarray(call.args[1]).reshape(-1)[0])
    return float(x.shape[axis]) if x.ndim else 1.0


def _running_product(call: Call) -> list[Array]:
    return [call.accumulator() * math.sqrt(_along(call)) * np.abs(call.results[0])]


def _variadic(call: Call) -> list[Array]:
    """Return the error of Sum or Mean of several tensors. For Mean it is too large, by the number of terms, but never
    too small."""
    count = float(len(call.args))
    return [_summed(call, _again(call, np.square), count, divisor=count if call.target.op_type == "Mean" else 1.0)]


def _averaged(call: Call) -> list[Array]:
    """Return the error of average pooling: a mean over each window."""
    kernel = call.kwargs.get("kernel_shape")
    terms = float(np.prod(kernel)) if kernel else _reduced(call)
    return [_summed(call, _again(call, np.square) / terms, terms, divisor=terms)]


def _pooled_norm(call: Call) -> list[Array]:
    kernel = call.kwargs.get("kernel_shape")
    terms = float(np.prod(kernel)) if kernel else _reduced(call)
    return [call.accumulator() * 2 * (math.sqrt(terms) + 2) * np.abs(call.results[0])]


def interpolation_error(x: Array) -> float:
    """Return the error of an interpolation of `x`, as a factor of the unit roundoff.

    The position between two elements is computed with an error that grows with the length of the axis, and that error
    moves the result by the same share of the difference between neighbours.
    """
    length = max(x.shape[2:], default=1) if x.ndim > 2 else max(x.shape, default=1)
    return (4 * length + 8) * float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))


def _interpolated(call: Call) -> list[Array]:
    return [np.full(call.results[0].shape, call.accumulator() * interpolation_error(call.args[0]))]


def _transformed(call: Call) -> list[Array]:
    """Return the error of a Fourier transform: log2(n) levels, each of which rounds numbers as large as the norm of the
    transformed signal. Signals beside it, as in other rows, have norms of their own."""
    result = call.results[0]
    count = max(call.args[0].size, 2)
    axes = (transformed_axis(call.target, call.args, result.ndim), result.ndim - 1)
    norms = np.sqrt(np.mean(np.square(result), axis=axes, keepdims=True)) if result.size else result
    return [np.broadcast_to(4 * call.accumulator() * math.log2(count) * norms, result.shape)]


def transformed_axis(node: Any, inputs: Sequence[Any], rank: int) -> int:
    """Return the axis of the frequencies in the result of DFT or STFT."""
    if node.op_type == "STFT":
        return rank - 2
    given = np.asarray(inputs[2]) if len(inputs) > 2 and inputs[2] is not None else getattr(node, "axis", None)
    return (rank - 2 if given is None else int(given)) % rank


def _determinant(call: Call) -> list[Array]:
    """Return the error of a determinant. By Hadamard's inequality no partial product exceeds the product of the row
    lengths."""
    x = call.args[0]
    rows = np.prod(np.sqrt(np.sum(np.square(x), axis=-1)), axis=-1)
    return [np.asarray(call.accumulator() * x.shape[-1] * rows)]


def _range(call: Call) -> list[Array]:
    """Return the error of Range, which some implementations compute by repeated addition."""
    result = call.results[0]
    largest = float(np.max(np.abs(result), initial=0.0))
    return [call.accumulator() * np.arange(result.size) * largest]


def terms_of(call: Call) -> float:
    """Return the largest number of terms in one result, or 1 for operators that are not sums."""
    name = str(call.target.op_type)
    if name in ("MatMul", "Gemm"):
        return float(max(call.args[0].shape, default=1))
    if name in ("Conv", "ConvTranspose"):
        return float(call.args[1].size)
    if name.startswith(("Reduce", "Global")):
        return _reduced(call)
    return float(max((a.size for a in call.args if _is_real(a)), default=1)) if name in SUMS else 1.0


def generous(call: Call, index: int) -> Array:
    """Return the error for an operator without a rule: as if every input element contributed to every output
    element."""
    result = call.results[index]
    terms = max((a.size for a in call.args if _is_real(a)), default=1)
    biggest = float(np.max(np.abs(result), initial=0.0, where=np.isfinite(result)))
    size = np.full(result.shape, 8 * call.accumulator(index) * math.sqrt(max(terms, 1)) * biggest)
    size = together(size, carried(lambda given: call.target.run(*given)[index], call.args, result, call.unit(index)))
    peak = max((float(finite_size(a).sum()) for a in call.args if _is_real(a)), default=0.0)
    return overflowing(size, np.full(result.shape, peak), call.largest_sum(index))


SUMS: dict[str, OnnxSumRule] = {
    **dict.fromkeys(_PRODUCTS, _added_products),
    "Einsum": _einsum,
    "Col2Im": _counted_sum,
    "ScatterElements": _counted_sum,
    "ScatterND": _counted_sum,
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": _product,
    "ReduceL1": _positive_sum,
    "ReduceL2": _positive_sum,
    "ReduceSumSquare": _positive_sum,
    "ReduceLogSum": _log_sum,
    "CumProd": _running_product,
    "Sum": _variadic,
    "Mean": _variadic,
    "AveragePool": _averaged,
    "GlobalAveragePool": _averaged,
    "LpPool": _pooled_norm,
    "GlobalLpPool": _pooled_norm,
    "Resize": _interpolated,
    "Upsample": _interpolated,
    "GridSample": _interpolated,
    "AffineGrid": _interpolated,
    "DFT": _transformed,
    "STFT": _transformed,
    "Det": _determinant,
    "Range": _range,
}

JOINT: dict[str, Callable[[Call], Joint | None]] = {
    **dict.fromkeys(("GlobalAveragePool", "ReduceMean", "ReduceSum"), _in_order),
    "AveragePool": _windows_in_order,
    "Gemm": _repeated(_gemm_terms, _gemm_squares),
    "MatMul": _products_in_order,
    "Conv": _repeated(_convolution_terms, _convolution_squares),
    "ConvTranspose": _repeated(_convolution_terms, _convolution_squares),
}
