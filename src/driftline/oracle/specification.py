"""The clauses in which a specification leaves a result open, with their sources. The front ends decide where each
applies.

A difference that rests only on such a clause is *unspecified*: it is shown with its clause and never counted as a bug.
Where a clause allows only a few results (`onnx/readings.py`, `torch/readings.py`), any other result is a bug. Where the
specification is definite (NaN in `torch.maximum`, the first of equal elements in `argmax`), a difference is a bug.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

ROUNDING_DECIDES = "rounding-decides"
COMPLEX_NONFINITE = "torch.complex-nonfinite"


@dataclass(frozen=True)
class Clause:
    """One point that a specification leaves open. `source` says where the specification states this, or is silent."""

    id: str
    operators: tuple[str, ...]
    sentence: str
    source: str


_TORCH = (
    Clause(
        "torch.cast-out-of-range",
        ("to", "_to_copy"),
        "a float that does not fit the integer type, NaN included, may become any integer",
        "PyTorch documentation, torch.Tensor.to: undefined where the truncated value does not fit",
    ),
    Clause(
        "torch.shift-beyond-width",
        ("bitwise_left_shift", "bitwise_right_shift"),
        "a shift by a negative number or by at least the width may give any integer",
        "PyTorch documentation, torch.bitwise_right_shift: undefined; torch.bitwise_left_shift is silent",
    ),
    Clause(
        "torch.empty",
        ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
        "memory that was never written holds anything",
        "PyTorch documentation, torch.empty: uninitialized data",
    ),
    Clause(
        "torch.scatter-duplicates",
        ("scatter", "index_put", "put", "index_copy"),
        "where an index occurs twice, either value may win",
        "PyTorch documentation, Tensor.scatter_ (picked arbitrarily) and Tensor.index_put_ (undefined)",
    ),
    Clause(
        "torch.interpolated-infinity",
        (
            "upsample_linear1d",
            "upsample_bilinear2d",
            "upsample_trilinear3d",
            "upsample_bicubic2d",
            "grid_sampler_2d",
            "grid_sampler_3d",
        ),
        "a NaN or infinity whose weight is zero may count or not",
        "PyTorch documentation, torch.nn.functional.interpolate and grid_sample: silent on neighbours of weight zero",
    ),
    Clause(
        "torch.infinitely-far-sample",
        ("grid_sampler_2d", "grid_sampler_3d"),
        "a sample at an infinite place may be padding or NaN",
        "PyTorch documentation, grid_sample: padding outside of the range, where eager multiplies it with NaN",
    ),
    Clause(
        "torch.place-of-nan",
        ("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d"),
        "where several elements are NaN, the place of any of them is that of the maximum",
        "PyTorch documentation, MaxPool2d and AdaptiveMaxPool2d: silent on NaN",
    ),
    Clause(
        "torch.sign-of-nan",
        ("signbit",),
        "the sign of a NaN that was computed may be either",
        "IEEE 754-2019, 6.3: it does not interpret the sign of a NaN; PyTorch documentation, torch.signbit: silent",
    ),
    Clause(
        "torch.padding-times-infinity",
        ("convolution", "convolution_backward"),
        "the zeros of a padding, or between the elements of a transposed convolution, may be multiplied with infinities"
        " and NaN, or left out",
        "PyTorch documentation, torch.nn.Conv2d: silent; eager leaves them out with oneDNN, and multiplies without",
    ),
    Clause(
        "torch.gradient-at-nan",
        (
            "elu_backward",
            "hardshrink_backward",
            "hardswish_backward",
            "hardtanh_backward",
            "softshrink_backward",
        ),
        "where the argument of a function in pieces is NaN, its gradient may be that of any piece, or NaN",
        "PyTorch documentation, ELU, Hardshrink, Hardswish, Hardtanh, Softshrink: silent; eager has one for a single"
        " element and another for many",
    ),
    Clause(
        "torch.einsum-order",
        ("einsum",),
        "three operands or more may be multiplied from left to right or in another order: an infinity may meet a zero"
        " or not",
        "PyTorch documentation, torch.einsum: from left to right, or in the order that opt_einsum finds, if installed",
    ),
    Clause(
        COMPLEX_NONFINITE,
        (),  # every operation that computes with complex numbers
        "what complex arithmetic makes of NaN and infinities depends on how it is written out in real numbers",
        "PyTorch documentation: silent; C99, Annex G, which defines it, is informative. torch.add multiplies the second"
        " summand with alpha = 1+0j, which makes NaN beside an infinity",
    ),
    Clause(
        "torch.equal-elements",
        ("sort", "argsort", "topk", "median", "kthvalue", "mode"),
        "which of equal elements comes first is open in an unstable sort",
        "PyTorch documentation, torch.sort (stable=False), torch.argsort, torch.topk",
    ),
)
_ONNX = (
    Clause(
        "onnx.cast-out-of-range",
        ("Cast", "CastLike"),
        "a float that does not fit the integer type, NaN included, may become any integer",
        "ONNX operator specification, Cast: undefined if out of range",
    ),
    Clause(
        "onnx.integer-division-by-zero",
        ("Div", "Mod"),
        "an integer divided by zero may be anything",
        "ONNX operator specification, Div and Mod: silent on integer division by zero",
    ),
    Clause(
        "onnx.power-out-of-range",
        ("Pow",),
        "a power of integers that does not fit their type, or has a negative exponent, may be any integer",
        "ONNX operator specification, Pow: silent on integer overflow; runtimes compute it in floating point",
    ),
    Clause(
        "onnx.shift-beyond-width",
        ("BitShift",),
        "a shift by at least the width may give any integer",
        "ONNX operator specification, BitShift: silent on shifts beyond the width",
    ),
    Clause(
        "onnx.nan-in-max-min",
        (
            "Max",
            "Min",
            "ReduceMax",
            "ReduceMin",
            "Clip",
            "Relu",
            "Celu",
            "HardSigmoid",
            "MaxPool",
            "GlobalMaxPool",
            "ArgMax",
            "ArgMin",
            "Hardmax",
            "TopK",
            "Unique",
            "ScatterElements",
            "ScatterND",
        ),
        "a NaN may win or lose a comparison",
        "ONNX operator specification, Max, Min, ReduceMax, ReduceMin, Clip, Relu, MaxPool, ArgMax, TopK, Hardmax and"
        " Unique: silent on NaN; Celu and HardSigmoid: defined by max and min",
    ),
    Clause(
        "onnx.clip-without-bound",
        ("Clip",),
        "an infinity on the side without a bound may be clipped to the largest number",
        "ONNX operator specification, Clip: a missing bound is the lowest or largest number of the type",
    ),
    Clause(
        "onnx.integer-overflow",
        (
            "Abs",
            "Add",
            "CumSum",
            "Gemm",
            "MatMul",
            "Mul",
            "Neg",
            "ReduceL1",
            "ReduceProd",
            "ReduceSum",
            "ReduceSumSquare",
            "Sub",
            "Sum",
        ),
        "a sum or product of integers that does not fit their type may be any integer",
        "ONNX operator specification: silent on integer overflow",
    ),
    Clause(
        "onnx.partial-overflow",
        (
            "ReduceSum",
            "ReduceMean",
            "ReduceProd",
            "MatMul",
            "Gemm",
            "Einsum",
            "Conv",
            "ConvTranspose",
            "CumSum",
            "Sum",
            "Mean",
            "AveragePool",
            "GlobalAveragePool",
        ),
        "whether a partial result overflows, and whether infinities of both signs meet, depends on the order of the"
        " terms",
        "ONNX operator specification: silent on the order in which terms are added or multiplied",
    ),
    Clause(
        "onnx.mean-of-nothing",
        ("ReduceMean",),
        "the mean of no elements may be anything",
        "ONNX operator specification, ReduceMean: a reduction over an empty set of values yields undefined",
    ),
    Clause(
        "onnx.padded-infinity",
        ("Conv", "ConvTranspose"),
        "a NaN or infinity that meets padding, or the holes of a dilated window, may count or not",
        "ONNX operator specification, Conv and ConvTranspose: silent on what padding does to non-finite numbers",
    ),
    Clause(
        "onnx.quantised-infinity",
        ("DynamicQuantizeLinear", "QuantizeLinear"),
        "a tensor that holds NaN or infinities may be quantised to anything",
        "ONNX operator specification, QuantizeLinear and DynamicQuantizeLinear: silent on NaN and infinities",
    ),
    Clause(
        "onnx.interpolated-infinity",
        ("Resize", "Upsample", "GridSample", "DeformConv"),
        "a NaN or infinity whose weight is zero may count or not",
        "ONNX operator specification, Resize, GridSample and DeformConv: silent on neighbours of weight zero",
    ),
    Clause(
        "onnx.transformed-infinity",
        ("DFT", "STFT"),
        "a Fourier transform of NaN or infinities may have them anywhere",
        "ONNX operator specification, DFT and STFT: silent on the order in which terms are added",
    ),
    Clause(
        "onnx.sign-of-nan",
        ("Sign",),
        "the sign of NaN may be anything",
        "ONNX operator specification, Sign: speaks of numbers above, below and equal to zero",
    ),
    Clause(
        "onnx.infinite-slope",
        ("PRelu",),
        "zero with an infinite slope is zero by the definition, and NaN where zero is multiplied with it all the same",
        "ONNX operator specification, PRelu: f(x) = x for x >= 0; the standard's evaluator multiplies",
    ),
    Clause(
        "onnx.einsum-order",
        ("Einsum",),
        "of three operands or more any two may be multiplied first: an infinity may meet a zero or not",
        "ONNX operator specification, Einsum: silent on the order of contraction",
    ),
    Clause(
        "onnx.scatter-duplicates",
        ("ScatterElements", "ScatterND", "Scatter"),
        "where an index occurs twice, either value may win",
        "ONNX operator specification, ScatterND: the order of iteration is not specified",
    ),
)
_ANY = (
    Clause(
        ROUNDING_DECIDES,
        (),
        "what is computed from a choice among nearly equal elements, or from a number that is finite or not by a"
        " rounding error, may be anything",
        "IEEE 754: silent on the order and the precision in which a compiler evaluates an expression",
    ),
    Clause(
        "sign-of-zero",
        (),
        "a zero that results from arithmetic may have either sign",
        "PyTorch documentation and ONNX operator specification: silent on the sign of a zero result",
    ),
)

CLAUSES = {clause.id: clause for clause in (*_TORCH, *_ONNX, *_ANY)}


@cache
def clauses_of(framework: str, operator: str) -> tuple[Clause, ...]:
    """Return the clauses about one operator of a framework."""
    own = f"{framework}."
    return tuple(clause for clause in CLAUSES.values() if clause.id.startswith(own) and operator in clause.operators)


def has_clauses(framework: str, operator: str) -> bool:
    """True if a clause exists for this operator."""
    return bool(clauses_of(framework, operator))
