"""Classify each ATen operation for the noise model: exact, a sum of products, a reduction, or pointwise.

An operation in no list counts as pointwise if its output has the shape of a broadcast of its inputs; otherwise a
generous rule is used, and the verdict says so.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

from driftline.core.tensors import Array
from driftline.oracle.noise import Joint, Products, stored, together, transcendental
from driftline.oracle.shadow.call import Call, schema_argument
from driftline.oracle.shadow.torch.sums import JOINT, PRODUCTS, SUMS, generous, products_in, through_kernel

# Operations that move, choose or step: their results are exact for the given arguments.
EXACT = {
    # moving
    "alias", "arange", "as_strided", "as_strided_copy", "broadcast_to", "cat", "clone", "constant_pad_nd", "copy",
    "detach", "diagonal", "diagonal_copy", "embedding", "empty", "empty_like", "empty_strided", "empty_permuted",
    "expand", "eye", "fill", "flip", "full", "full_like", "gather", "im2col", "index", "index_fill", "index_select",
    "lift_fresh", "lift_fresh_copy", "masked_fill", "masked_scatter", "masked_select", "movedim", "narrow", "new_empty",
    "new_empty_strided", "new_full", "new_ones", "new_zeros", "nonzero", "ones", "ones_like", "permute",
    "pixel_shuffle", "pixel_unshuffle", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "repeat",
    "repeat_interleave", "replication_pad1d", "replication_pad2d", "replication_pad3d", "reshape", "roll", "rot90",
    "scalar_tensor", "scatter", "select", "select_backward", "select_scatter", "slice", "slice_backward",
    "slice_scatter", "split", "split_with_sizes", "squeeze", "stack", "t", "take", "transpose", "tril", "triu",
    "unbind", "unfold", "unsafe_split", "unsafe_split_with_sizes", "unsqueeze", "upsample_nearest1d",
    "upsample_nearest2d", "upsample_nearest3d", "view", "view_as_complex",
    "view_as_real", "where", "zero", "zeros", "zeros_like", "_conj", "_unsafe_view", "_unsafe_index",
    "_local_scalar_dense", "_reshape_alias", "complex", "real", "imag", "channel_shuffle", "max_unpool2d",
    "max_unpool3d", "einsum",  # which selects the result of one order (einsum.py); its products are operations, too
    # choosing
    "abs", "amax", "amin", "aminmax", "argmax", "argmin", "argsort", "clamp", "clamp_max", "clamp_min", "clip",
    "cummax", "cummin", "fmax", "fmin", "hardtanh", "kthvalue", "max", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d", "max_pool1d_with_indices", "maximum",
    "median", "min", "minimum", "mode", "msort", "nan_to_num", "nanmedian", "neg", "negative", "relu", "relu6", "sort",
    "threshold", "threshold_backward", "topk", "unique", "_unique2", "unique_consecutive", "copysign",
    "hardshrink_backward", "hardtanh_backward", "softshrink_backward",
    # stepping
    "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "bucketize",
    "ceil", "eq", "equal", "fix", "floor", "floor_divide", "fmod", "frac", "ge", "gt", "heaviside", "isclose",
    "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal", "le", "logical_and", "logical_not",
    "logical_or", "logical_xor", "lt", "ne", "positive", "remainder", "round", "searchsorted", "sgn", "sign", "signbit",
    "trunc", "all", "any", "bincount", "count_nonzero", "histc", "one_hot", "nextafter", "ldexp", "frexp",
}  # fmt: skip

TRANSCENDENTAL = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "digamma", "erf", "erfc", "erfinv",
    "exp", "exp2", "expm1", "gelu", "lgamma", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "logit",
    "mish", "pow", "rsqrt", "sigmoid", "silu", "sin", "sinc", "sinh", "softplus", "special_bessel_j0", "special_entr",
    "special_i0", "special_ndtr", "sqrt", "tan", "tanh", "xlogy", "polygamma", "elu", "celu", "selu",
    "log_sigmoid_forward", "hypot", "angle", "polar", "special_zeta", "igamma", "igammac", "mvlgamma", "i0",
    "sigmoid_backward", "tanh_backward", "gelu_backward", "silu_backward", "elu_backward", "softplus_backward",
}  # fmt: skip

_NAMESPACES = ("aten", "prims", "prim", "quantized_decomposed")

ROOTS = {"hypot", "pow", "rsqrt", "sqrt"}  # not affected by a fast exponential
EXPONENTIAL = TRANSCENDENTAL - ROOTS
FAST_THROUGH_ONE = {"erf", "tanh"}  # coarse implementations have no relative accuracy near zero


@cache
def name_of(target: Any) -> str:
    """Return the short name of an operation: `aten::add_.Tensor` -> `add`. Foreign operators keep their full name."""
    name: str = target._schema.name
    return name if is_foreign(target) else name.partition("::")[2].removesuffix("_")


def is_foreign(target: Any) -> bool:
    """True for an operator that is not one of torch's own; it is defined by its kernel alone."""
    return target.namespace not in _NAMESPACES


def is_cast(target: Any) -> bool:
    return name_of(target) in ("to", "_to_copy", "convert_element_type", "type_as")


def is_exact(target: Any, kwargs: dict[str, Any]) -> bool:
    """True if the operation does not round. Casts are handled elsewhere: they round when the new type is coarser."""
    return bool(target.is_view) or name_of(target) in EXACT or kwargs.get("rounding_mode") is not None


def is_rounded_once(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """True for a sum, difference or product of two numbers, which is exact if its type can hold the operands and the
    result. Quotients are excluded, because they may be computed as a product with the reciprocal."""
    return name_of(target) in ("add", "sub", "mul") and schema_argument(target, args, kwargs, "alpha") in (None, 1)


def amplitudes(call: Call) -> tuple[list[Array | None], bool]:
    """Return the size of the rounding error of each result, and whether a specific rule was found for the operation."""
    name = name_of(call.target)
    arithmetic = call.arithmetic.with_exact_roots if name in ROOTS else call.arithmetic
    rule = SUMS.get(name)
    sums = rule(call) if rule else ()
    known = True
    sizes: list[Array | None] = []
    for index, (result, dtype) in enumerate(zip(call.results, call.dtypes, strict=True)):
        if dtype is None:
            sizes.append(None)
            continue
        functional = name in TRANSCENDENTAL
        value = result.detach().numpy()
        size = (
            transcendental(value, arithmetic, dtype, through_one=name in FAST_THROUGH_ONE)
            if functional
            else stored(value, arithmetic, dtype)
        ) + arithmetic.tiny(dtype)
        if not functional or name in ROOTS:  # these return exact zeros exactly
            size = np.where(value == 0, 0.0, size)
        if rule:
            summed = sums[index]
            size = size if summed is None else together(size, summed)
        elif is_foreign(call.target):
            known = False
            size = together(size, through_kernel(call, index))
        elif not functional and not _is_pointwise(call.target, call.args, result):
            known = False
            size = together(size, generous(call, index))
        sizes.append(np.asarray(size))
    return sizes, known


def products_of(call: Call) -> Products | None:
    """Return the sum of products that an operation computes and to which compilers fuse a following addition, or
    `None`."""
    terms = PRODUCTS.get(name_of(call.target))
    return products_in(call, terms) if terms and call.results[0].is_floating_point() else None


def joint_errors(call: Call) -> Joint | None:
    """Return the errors that are correlated between elements of the result, or `None`."""
    name = name_of(call.target)
    rule = JOINT.get(name)
    return rule(call) if rule and call.dtypes[0] and (call.results[0].dim() or name in ("mean", "sum")) else None


def _is_pointwise(target: Any, args: tuple[Any, ...], result: torch.Tensor) -> bool:
    """True if each result element depends only on the input elements at the same index. Shapes alone are not
    sufficient: a Fourier transform keeps them too."""
    if torch.Tag.pointwise not in target.tags and name_of(target).startswith(("_fft", "linalg", "_linalg", "fft")):
        return False
    shapes = [a.shape for a in args if isinstance(a, torch.Tensor)]
    try:
        return torch.broadcast_shapes(*shapes) == result.shape if shapes else True
    except RuntimeError:
        return False
