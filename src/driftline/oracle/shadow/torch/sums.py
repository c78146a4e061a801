"""Rules for torch operations that add up many terms: matrix products, convolutions, reductions, running sums.

The noise model needs the sum of the squared terms, which the operation itself computes: applied to squared arguments, a
sum of products is the sum of the squared products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from driftline.core.tensors import Array
from driftline.oracle.left_to_right import product_error, sum_error
from driftline.oracle.noise import (
    ROOT2,
    WEIGHTS,
    Joint,
    Products,
    RepeatedError,
    RunningError,
    SharedFactors,
    overflowing,
    repeated_error,
    summed,
    together,
    transposed_terms,
)
from driftline.oracle.shadow.call import Call
from driftline.oracle.shadow.conditioning import carried

TorchSumRule = Callable[[Call], list[Array | None]]


def _squared(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_complex():
        return value.abs().square().to(value.dtype)
    return value.square() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _square_of_size(value: torch.Tensor) -> torch.Tensor:
    return value.abs().square() if value.is_complex() else value.square()


def _factor(value: Any) -> Any:
    """Square a keyword argument: numbers such as alpha and beta multiply terms, so they are squared with them."""
    return value * value if isinstance(value, (int, float)) and not isinstance(value, bool) else _squared(value)


def _magnitude(value: Any) -> Any:
    """Return the magnitude of each finite element and 0 for others: an infinity makes a sum infinite in every order."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value.abs().nan_to_num(0.0, 0.0, 0.0)


def _numpy(value: torch.Tensor) -> Array:
    array = value.detach().numpy()
    return array.real if array.dtype.kind == "c" else array


def _terms(value: torch.Tensor) -> Array:
    """Return a tensor as an array, with a lazy negation applied."""
    return value.detach().resolve_neg().numpy()


def products(terms: Callable[[Call], float]) -> TorchSumRule:
    """Return a rule for a sum of `terms` products of two arguments, possibly with an addend."""

    def rule(call: Call) -> list[Array | None]:
        squares = (torch.from_numpy(call.products.squares),) if call.products else _squares(call)
        sizes: list[Array | None] = []
        for index, (square, result) in enumerate(zip(squares, call.results, strict=True)):
            if not isinstance(square, torch.Tensor) or call.dtypes[index] is None:
                sizes.append(None)
                continue
            values, total = np.abs(result.detach().numpy()), _numpy(square)
            count = max(terms(call), call.terms)
            size = summed(values, total, count, call.accumulator(index))
            largest = call.largest_sum(index)
            if bool((np.sqrt(total * count) > largest).any()):
                peaks = call.target(*map(_magnitude, call.args), **{k: _magnitude(v) for k, v in call.kwargs.items()})
                peak = peaks[index] if isinstance(peaks, (tuple, list)) else peaks
                size = overflowing(size, _numpy(peak), largest)
            if call.product(index):  # each factor is rounded before it is multiplied
                size = together(size, 2 * call.product(index) * np.sqrt(np.maximum(total, 0.0)))
            if call.dtypes[index] == "bfloat16":
                size = size + _flushed(call, index, count)
            sizes.append(size)
        return sizes

    return rule


def _squares(call: Call) -> tuple[Any, ...]:
    squares = call.target(*[_squared(a) for a in call.args], **{k: _factor(v) for k, v in call.kwargs.items()})
    return tuple(squares) if isinstance(squares, (tuple, list)) else (squares,)


def products_in(call: Call, terms: Callable[[Call], float]) -> Products:
    """Return the products that an operation adds up, including its own addend."""
    return Products(_numpy(_squares(call)[0]), max(terms(call), call.terms))


def _flushed(call: Call, index: int, terms: float) -> Array | float:
    """Return the error from processor instructions for bfloat16 products (AVX512-BF16, AMX) that take subnormal
    factors, and subnormal sums, for zero."""
    smallest = call.arithmetic.underflow("bfloat16")
    addends = _addends(call)
    lost: Array | float = terms * smallest
    for place, factor in enumerate(call.args):
        if place in addends or not isinstance(factor, torch.Tensor):
            continue
        size = _magnitude(factor)
        tiny = torch.where(size < smallest, size, 0.0)
        if bool(tiny.any()):
            others = [_nothing(a) if at in addends else _magnitude(a) for at, a in enumerate(call.args)]
            others[place] = tiny
            made = call.target(*others, **call.kwargs)
            lost = lost + _numpy(made[index] if isinstance(made, (tuple, list)) else made)
    return lost


def _addends(call: Call) -> set[int]:
    """Return the positions of arguments that are added to the products."""
    names = [argument.name for argument in call.target._schema.arguments]
    added = {"bias"} | ({"self"} if {"beta", "value"} & set(names) else set())
    return {place for place, name in enumerate(names) if name in added}


def _nothing(value: Any) -> Any:
    return torch.zeros_like(value) if isinstance(value, torch.Tensor) else value


def _added(call: Call) -> torch.Tensor | None:
    """Return the addend of a sum of products, broadcast to the shape of the result, or `None`."""
    result = call.results[0]
    bias = call.argument("bias")
    if isinstance(bias, torch.Tensor):
        return bias.reshape(-1, *[1] * (result.dim() - 2)).expand(result.shape)
    addend, beta = call.argument("self"), call.argument("beta")
    if isinstance(addend, torch.Tensor) and isinstance(beta, (int, float)):
        return (addend * beta).expand(result.shape)
    return None


def repeated(terms: Callable[[Call], float]) -> Callable[[Call], Joint | None]:
    """Return a rule for the error that repeats in every element of a sum of products with an addend."""

    def rule(call: Call) -> Joint | None:
        result, added = call.results[0], _added(call)
        if added is None:
            return _products_in_order(call)

        def squares() -> Array:
            addends = _addends(call)
            factors = [_nothing(a) if at in addends else _squared(a) for at, a in enumerate(call.args)]
            return _numpy(call.target(*factors, **{k: _factor(v) for k, v in call.kwargs.items()}))

        given = (result.detach().numpy(), added.detach().numpy())
        return repeated_error(*given, squares, terms(call), call.accumulator()) or _products_in_order(call)

    return rule


def _products_in_order(call: Call) -> Joint | None:
    """Return the error of adding the products of two matrices one after the other, or `None` for other sums of
    products."""
    matrices = [a for a in call.args if isinstance(a, torch.Tensor)][-2:]
    named = call.target._schema.name in _MATRIX_PRODUCTS
    if not named or len(matrices) != 2 or any(matrix.is_complex() for matrix in matrices):
        return None
    left, right = map(_terms, matrices)
    error = product_error(left, right, call.accumulating())
    alpha = call.argument("alpha")
    return None if error is None else _repeated_alike(error * (1 if alpha is None else alpha), 1.0, call.results[0])


def _inner(call: Call) -> float:
    """Return the number of terms in mm, bmm, addmm, mv and dot: the last size of the first matrix."""
    matrices = [a for a in call.args if isinstance(a, torch.Tensor)][-2:]
    return float(matrices[0].shape[-1]) if matrices[0].dim() else 1.0


def _convolution_terms(call: Call) -> float:
    weight = call.args[1]
    if call.argument("transposed"):
        strides, dilations = (_sides(call.argument(name), weight.dim() - 2) for name in ("stride", "dilation"))
        return transposed_terms(weight.shape, call.argument("groups"), strides, dilations)
    return float(weight.numel() / max(weight.shape[0], 1))


def _sides(given: Any, count: int) -> list[int]:
    """Return one number per side of a kernel, repeating a single number."""
    return list(given) if len(given) == count else list(given) * count


def _backward_convolution_terms(call: Call) -> float:
    gradient, weight = call.args[0], call.args[2]
    return float(max(weight.numel() / max(weight.shape[1], 1), gradient.numel() / max(gradient.shape[1], 1)))


def _reduced(call: Call) -> float:
    """Return the number of elements that are reduced to one result."""
    return float(call.args[0].numel() / max(call.results[0].numel(), 1))


def _sum(call: Call) -> list[Array | None]:
    keywords = {k: v for k, v in call.kwargs.items() if k != "dtype"}
    squares = call.target(_square_of_size(call.args[0]), *call.args[1:], **keywords)
    size = summed(call.results[0].detach().numpy(), _numpy(squares), _reduced(call), call.accumulator())
    peak = call.target(_magnitude(call.args[0]), *call.args[1:], **keywords)
    return [overflowing(size, _numpy(peak), call.largest_sum())]


def _mean(call: Call) -> list[Array | None]:
    count = max(_reduced(call), 1.0)
    keywords = {k: v for k, v in call.kwargs.items() if k != "dtype"}
    squares = call.target(_square_of_size(call.args[0]), *call.args[1:], **keywords)
    size = summed(call.results[0].detach().numpy(), _numpy(squares) / count, count, call.accumulator())
    peak = call.target(_magnitude(call.args[0]), *call.args[1:], **keywords)
    return [overflowing(size, _numpy(peak) * count, call.largest_sum())]


def _in_order(call: Call) -> Joint | None:
    """Return the error of adding the elements one after the other: a legal order, in which all sums may err the same
    way."""
    x, result = call.args[0], call.results[0]
    dims = call.argument("dim")
    axes = tuple(range(x.dim())) if dims in (None, []) else (dims,) if isinstance(dims, int) else tuple(dims)
    error = sum_error(_terms(x), axes, call.accumulating()) if axes and not x.is_complex() else None
    return None if error is None else _repeated_alike(error, _reduced(call) if _is_mean(call) else 1.0, result)


def _is_mean(call: Call) -> bool:
    return bool(call.target._schema.name == "aten::mean")


def _windows_in_order(call: Call) -> Joint | None:
    """Return the error of adding the elements of each window of an average pool one after the other, or `None` if some
    windows extend beyond the padding."""
    x, result, sides = call.args[0].detach(), call.results[0], call.args[0].dim() - 2
    if sides < 1 or call.argument("ceil_mode") or not call.argument("kernel_size"):
        return None
    kernel, padding = (_sides(call.argument(name), sides) for name in ("kernel_size", "padding"))
    strides = _sides(call.argument("stride") or kernel, sides)
    windows = torch.nn.functional.pad(x, [side for pad in reversed(padding) for side in (pad, pad)])
    for place in range(sides):
        windows = windows.unfold(2 + place, kernel[place], strides[place])
    error = sum_error(_terms(windows), range(2 + sides, 2 + 2 * sides), call.accumulating())
    return None if error is None else _repeated_alike(error, float(math.prod(kernel)), result)


def _repeated_alike(error: Array, divisor: float, result: torch.Tensor) -> RepeatedError | None:
    """Return `error` divided by `divisor` in the shape of the result, or `None` if the number of elements differs."""
    return RepeatedError(error.reshape(tuple(result.shape)) / divisor) if error.size == result.numel() else None


def _variance_size(call: Call, variance: torch.Tensor, index: int) -> Array:
    """Return the error of a variance in any stable formula (two passes, Welford, merged blocks).

    Such a formula loses as many digits as the root mean square exceeds the deviation by. The mean of squares minus the
    square of the mean loses twice as many, which is a bug.
    """
    squares = _square_of_size(call.args[0])
    dims = call.argument("dim")
    keep = bool(call.argument("keepdim"))
    mean_square = squares.mean() if not dims else squares.mean(dims, keepdim=keep)
    spread = _numpy((variance * torch.maximum(mean_square, variance)).clamp_min(0).sqrt())
    count = max(_reduced(call), 1.0)
    size = call.accumulator(index) * math.sqrt(count) * spread
    return overflowing(size, _numpy(mean_square) * count, call.largest_sum(index))


def _var(call: Call) -> list[Array | None]:
    return [_variance_size(call, call.results[0], 0)]


def _std(call: Call) -> list[Array | None]:
    deviation = call.results[0]
    size = _variance_size(call, deviation.square(), 0)
    return [size / np.maximum(2 * _numpy(deviation), np.sqrt(np.finfo(np.float64).tiny))]


def _var_mean(call: Call) -> list[Array | None]:
    mean = call.results[1]
    dims = call.argument("dim")
    x = call.args[0]
    keep = bool(call.argument("keepdim"))
    count = max(_reduced(call), 1.0)
    squares = x.square().mean() if not dims else x.square().mean(dims, keepdim=keep)
    size = summed(mean.detach().numpy(), _numpy(squares) / count, count, call.accumulator(1))
    sizes = _magnitude(x)
    peak = sizes.mean() if not dims else sizes.mean(dims, keepdim=keep)
    size = overflowing(size, _numpy(peak) * count, call.largest_sum(1))
    return [_variance_size(call, call.results[0], 0), size]


def _running_sum(call: Call) -> RunningError:
    """Return the error of a cumulative sum: every partial sum rounds, including larger ones inside a block that
    cancel."""
    keywords = {k: v for k, v in call.kwargs.items() if k != "dtype"}
    squares = _numpy(call.target(call.args[0].square(), *call.args[1:], **keywords))
    result = np.abs(call.results[0].detach().numpy())
    steps = call.accumulator() * np.maximum(result, np.sqrt(np.maximum(squares, 0.0)) / ROOT2)
    return RunningError(steps, call.argument("dim"))


def _product(call: Call) -> list[Array | None]:
    """Return the error of a product, a relative error per factor; NaN where some order of the factors overflows or
    underflows."""
    size = call.accumulator() * math.sqrt(_reduced(call)) * np.abs(call.results[0].detach().numpy())
    sizes = _magnitude(call.args[0].abs() if call.args[0].is_complex() else call.args[0])
    keywords = {k: v for k, v in call.kwargs.items() if k != "dtype"}
    large = call.target(sizes.clamp_min(1.0), *call.args[1:], **keywords)
    small = call.target(torch.where(sizes == 0, 1.0, sizes).clamp_max(1.0), *call.args[1:], **keywords)
    size = overflowing(size, _numpy(large), call.largest_sum())
    return [overflowing(size, _numpy(1.0 / small), call.largest_sum())]


def _running_product(call: Call) -> RunningError:
    """Return the error of a cumulative product, whose relative errors add up."""
    result = np.abs(call.results[0].detach().numpy())
    return RunningError(np.full(result.shape, call.accumulator()), call.argument("dim"), result)


def _running_logarithm(call: Call) -> RunningError:
    """Return the error of the logarithm of a cumulative sum: its relative errors become absolute, and each result
    rounds."""
    result = np.abs(call.results[0].detach().numpy())
    return RunningError(
        call.accumulator() * np.maximum(np.where(np.isfinite(result), result, 0.0), 1.0), call.argument("dim")
    )


def _averaged(call: Call) -> list[Array | None]:
    """Return the error of average pooling: a mean over each window."""
    x, result = call.args[0], call.results[0]
    terms = max(x.numel() / max(result.numel(), 1), 1.0)
    kernel = call.argument("kernel_size")
    if kernel:
        terms = float(np.prod(kernel)) if len(kernel) > 1 else float(kernel[0]) ** (x.dim() - 2)
    squares = call.target(x.square(), *call.args[1:], **call.kwargs)
    size = summed(result.detach().numpy(), _numpy(squares) / terms, terms, call.accumulator())
    peak = call.target(_magnitude(x), *call.args[1:], **call.kwargs)
    return [overflowing(size, _numpy(peak) * terms, call.largest_sum())]


def _scattered(call: Call) -> list[Array | None]:
    """Return the error of sums into selected elements (index_add, scatter_add, embedding backward). The target counts
    as one more term, and every partial sum is rounded to the type of the result."""
    squares = call.target(*[_squared(a) for a in call.args], **{k: _squared(v) for k, v in call.kwargs.items()})
    values = [a for a in call.args if isinstance(a, torch.Tensor)]
    terms = max((v.numel() for v in values), default=1) / max(call.results[0].numel(), 1) + 1
    size = summed(call.results[0].detach().numpy(), _numpy(squares), max(terms, 8.0), call.unit())
    return [size]


def _transformed(call: Call) -> list[Array | None]:
    """Return the error of a Fourier transform: log2(n) levels, each of which rounds numbers as large as the signal's
    norm. Signals in a batch are treated separately."""
    result, axes = call.results[0], tuple(call.args[1])
    if not result.numel():
        return [np.zeros(result.shape)]
    count = max(math.prod(call.args[0].shape[axis] for axis in axes), 2)
    sizes = np.abs(result.detach().numpy())
    sizes = np.where(np.isfinite(sizes), sizes, 0.0)
    peak = np.maximum(sizes.max(axes, keepdims=True), np.finfo(np.float64).tiny)  # squares of large numbers overflow
    norm = peak * np.sqrt(np.mean((sizes / peak) ** 2, axes, keepdims=True))
    return [np.broadcast_to(4 * call.accumulator() * math.log2(count) * norm, result.shape)]


def generous(call: Call, index: int) -> Array:
    """Return the error for an operation without a rule: as if every input element contributed to every output
    element."""
    result = call.results[index]
    tensors = [a for a in call.args if isinstance(a, torch.Tensor) and a.is_floating_point() and a.numel()]
    terms = max((a.numel() for a in tensors), default=1)
    biggest = float(result.abs().nan_to_num(0, 0, 0).max()) if result.numel() else 0.0
    size = np.full(result.shape, 8 * call.accumulator(index) * math.sqrt(terms) * biggest)
    size = together(
        size, carried(_again(call, index), _as_arrays(call.args), result.detach().numpy(), call.unit(index))
    )
    peak = max((float(_magnitude(a).sum()) for a in tensors), default=0.0)
    return overflowing(size, np.full(result.shape, peak), call.largest_sum(index))


def through_kernel(call: Call, index: int) -> Array:
    """Return the error for a foreign operator: how far the result moves when each argument is rounded once more."""
    result = call.results[index].detach().numpy()
    return np.asarray(carried(_again(call, index), _as_arrays(call.args), result, call.unit(index)))


def _again(call: Call, index: int) -> Callable[[list[Any]], Array]:
    """Return a function that runs the operation on other arguments, which it may overwrite."""

    def run(arrays: list[Any]) -> Array:
        args = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arrays]
        with torch.no_grad():
            results = call.target(*args, **call.kwargs)
        chosen: torch.Tensor = results if isinstance(results, torch.Tensor) else results[index]
        return chosen.numpy()

    return run


def _as_arrays(args: tuple[Any, ...]) -> list[Any]:
    return [a.detach().clone().numpy() if isinstance(a, torch.Tensor) else a for a in args]


_INTERPOLATIONS = (
    "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
    "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
)  # fmt: skip


def _weighted(call: Call) -> SharedFactors:
    """Return the error that elements at the same index of an axis share, because their weights are computed once."""
    return SharedFactors(WEIGHTS * call.accumulator(), tuple(range(2, call.results[0].dim())))


def _interpolated(call: Call) -> list[Array | None]:
    """Return the error of interpolation weights. They are differences of rounded coordinates, whose error grows with
    the longest side."""
    x = call.args[0]
    over = tuple(range(2, x.dim()))
    largest = _numpy(_magnitude(x).amax(over, keepdim=True)) if x.numel() else np.zeros(())
    places = WEIGHTS + max((float(size) for size in (*x.shape[2:], *call.results[0].shape[2:])), default=0.0)
    return [call.accumulator() * places * np.broadcast_to(largest, call.results[0].shape)]


def _hardswish_slope(call: Call) -> list[Array | None]:
    """Return the error of (x/3 + 1/2) times the gradient, where the sum cancels for x near -3/2."""
    gradient, x = (_magnitude(argument).numpy() for argument in call.args[:2])
    return [call.unit() * gradient * (x / 3 + 0.5)]


def _through(call: Call) -> list[Array | None]:
    """Return the error of a function whose formula uses larger numbers (`programs/onnx/player/torch_ops.py`)."""
    return [call.arithmetic.transcendental(call.dtypes[0] or "float32") * np.abs(_numpy(call.args[1]))]


_MATRIX_PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")
# Sums of products to which compilers fuse the addition that follows.
PRODUCTS: dict[str, Callable[[Call], float]] = {
    **dict.fromkeys(("mm", "bmm", "mv", "addmm", "baddbmm", "addmv"), _inner),
    "convolution": _convolution_terms,
}

SUMS: dict[str, TorchSumRule] = {
    **dict.fromkeys(
        ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "vdot", "addbmm", "_int_mm"), products(_inner)
    ),
    "convolution": products(_convolution_terms),
    "convolution_backward": products(_backward_convolution_terms),
    "addcmul": products(lambda call: 2.0),
    "ger": products(lambda call: 1.0),
    "hardswish_backward": _hardswish_slope,
    "through": _through,
    **dict.fromkeys(_INTERPOLATIONS, _interpolated),
    "sum": _sum,
    "nansum": _sum,
    "mean": _mean,
    "var": _var,
    "std": _std,
    "var_mean": _var_mean,
    "prod": _product,
    **dict.fromkeys(
        ("avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
         "adaptive_avg_pool1d"),
        _averaged,
    ),
    **dict.fromkeys(
        ("index_add", "scatter_add", "embedding_dense_backward", "index_put", "_index_put_impl"), _scattered
    ),
    **dict.fromkeys(("_fft_r2c", "_fft_c2c", "_fft_c2r"), _transformed),
}  # fmt: skip

# Operations whose errors are correlated between elements.
JOINT: dict[str, Callable[[Call], Joint | None]] = {
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), repeated(_inner)),
    "convolution": repeated(_convolution_terms),
    **dict.fromkeys(("sum", "mean"), _in_order),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _windows_in_order),
    **dict.fromkeys(("mm", "bmm"), _products_in_order),
    "cumsum": _running_sum,
    "cumprod": _running_product,
    "logcumsumexp": _running_logarithm,
    **dict.fromkeys(_INTERPOLATIONS, _weighted),
}
