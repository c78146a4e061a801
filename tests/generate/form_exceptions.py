"""What the languages leave open, as data: the forms of these operators are not compared on these values."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import import_module

from driftline.generate import table


@dataclass(frozen=True)
class Open:
    """Kinds of special values (see `form_runs.KINDS`) on which a form may differ from the others."""

    operators: tuple[str, ...]
    forms: tuple[str, ...]
    kinds: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Absolute:
    """Operators that subtract numbers of about this size, so that the error is relative to it."""

    operators: tuple[str, ...]
    size: float
    why: str


_TORCH, _ONNX, _JNP, _TF = ("torch",), ("onnx",), ("jnp",), ("tf",)
_ANY = ("torch", "onnx", "jnp", "tf")
_ON_ARM = platform.machine() == "aarch64"


def _of(*files: str) -> tuple[str, ...]:
    """The operators of some files of the table."""
    known = {name: import_module(f"driftline.generate.ops.{name}").OPERATORS for name in table._FILES}
    return tuple(operator.name for file in files for operator in known[file])


# Their results are sums of many: errors are relative to the greatest term
SUMS = (
    *_of("complex_numbers", "convolution", "matmul", "norms", "pooling"),
    *_of("recurrent", "reductions", "resize", "scans", "softmax"),
)

OPEN: tuple[Open, ...] = (
    Open(SUMS, _ANY, ("huge", "tiny", "edges"), "whether a sum overflows on the way depends on its order"),
    Open(tuple(table.OPERATORS), _JNP, ("tiny",), "XLA on a CPU takes subnormal numbers for zero"),
    Open(tuple(table.OPERATORS), _TF, ("tiny",), "TensorFlow's kernels on a CPU take subnormal numbers for zero"),
    Open(_of("complex_numbers"), _ANY, ("nan", "inf"), "algorithms of Fourier transforms differ in what they multiply"),
    Open(("sign",), _TORCH, ("nan",), "torch gives 0 for NaN, numpy and jnp NaN; ONNX does not say"),
    Open(("fmod",), _TORCH, ("huge", "tiny"), "the vectorised fmod of torch gives NaN for great quotients"),
    Open(("gelu",), _TORCH, ("inf", "huge"), "oneDNN, which torch calls, gives NaN for infinity"),
    Open(("pow_scalar",), _TORCH, ("inf", "zero", "edges"), "torch takes powers of 0.5 and -0.5 for sqrt and rsqrt"),
    Open(("addcmul", "addcdiv", "lerp"), _TORCH, ("huge", "tiny"), "the product is not rounded before it is added"),
    Open(("sinh", "cosh"), _JNP, ("edges",), "near overflow XLA's are off by a dozen units in the last place"),
    Open(
        ("group_norm", "batch_norm", "instance_norm", "layer_norm"), ("torch", "jnp"), ("inf",),
        "scale and shift are folded into one, which meets infinity elsewhere",
    ),
    Open(("attention",), _TORCH, ("nan", "inf"), "torch gives 0 for a row of scores that are all -inf"),
    Open(("logsumexp",), _ONNX, ("inf",), "the reference evaluator subtracts infinity from infinity"),
    Open(("lp_normalization",), _ONNX, ("zero",), "the reference evaluator gives 0 for a vector of length 0, not NaN"),
    Open(
        tuple(
            f"conv{n}d{kind}"
            for n in (1, 2, 3)
            for kind in ("", "_depthwise", "_same", "_valid", "_padded", "_circular")
        )
        + tuple(
            f"conv_transpose{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_grouped")
        ),
        ("onnx", "jnp"), ("nan", "inf"),
        "whether padding and the holes of a dilated window meet the weight as zeros is open",
    ),
    Open(
        ("conv_transpose2d_depthwise",), _JNP, ("nan", "inf"),
        "XLA on a CPU multiplies every channel by the weights of all groups, which are zeros outside its own",
    ),
    Open(
        ("max_pool1d", "max_pool2d", "max_pool3d", "global_max_pool1d", "global_max_pool3d"), _ONNX, ("nan",),
        "torch keeps NaN, the reference evaluator drops it; ONNX does not say",
    ),
    Open(
        ("avg_pool1d", "avg_pool2d", "avg_pool3d"), _ONNX, ("nan",),
        "the reference evaluator marks padding that does not count with NaN, and drops the NaN of the input too",
    ),
    Open(("lp_pool1d", "lp_pool2d"), _TORCH, ("inf", "nan"), "torch multiplies by the sign of the sum, and drops NaN"),
    Open(
        tuple(f"upsample_{kind}" for kind in (
            "nearest", "nearest_size", "nearest_exact", "linear", "linear_size", "linear_corners", "bicubic",
            "bicubic_corners",
        )),
        _ONNX, ("nan", "inf"),
        "the reference evaluator multiplies what it does not choose by zero, and clips infinities",
    ),
    Open(
        ("upsample_linear_size",), _JNP, ("nan", "inf"),
        "whether a neighbour of weight zero is looked at is open",
    ),
    Open(
        ("lstm_cell", "lstm_sequence"), _ONNX, ("inf",),
        "the reference evaluator multiplies the cell by the zeros of peepholes that are not there",
    ),
    Open(("scatter_amax", "scatter_amin"), _ONNX, ("nan",), "the reference evaluator compares as Python does"),
    Open(
        ("scatter_amax", "scatter_amin", "sort", "argsort", "msort", "topk", "argmax", "argmin", "last_argmax",
         "last_argmin", "bucketize", "max_pool1d", "max_pool2d", "max_pool3d"),
        _TF, ("nan",), "TensorFlow does not say where NaN stands in an order",
    ),
    Open(("remainder",), _TF, ("huge",), "torch gives NaN for great quotients, TensorFlow what numpy gives"),
    Open(("xlogy",), _TF, ("nan",), "0 * log(NaN) is documented as 0"),
    Open(("prelu",), _TF, ("nan", "inf"), "0 * inf where the slope meets a zero"),
    Open(("upsample_linear_size",), _TF, ("nan", "inf"), "whether a neighbour of weight zero is looked at is open"),
    Open(("erf",), _TF, ("inf", "huge"), "TensorFlow gives NaN in float64"),
    Open(("logcumsumexp",), _TF, ("nan", "inf"), "TensorFlow scans in another order, by a function that drops NaN"),
    Open(
        tuple(f"conv{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_depthwise", "_same", "_valid"))
        + tuple(f"conv_transpose{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_depthwise", "_grouped")),
        _TF, ("nan", "inf"), "whether padding and holes meet the weight as zeros is open",
    ),
)  # fmt: skip

ABSOLUTE: tuple[Absolute, ...] = (
    Absolute(("gelu", "gelu_tanh"), 8.0, "x * (1 + erf(x)) cancels where x is negative"),
    *((Absolute(("erf",), 1.0, "the vectorised erf of torch is coarse on Arm"),) if _ON_ARM else ()),
    Absolute(("tanhshrink",), 1.0, "x - tanh(x) cancels near zero"),
    Absolute(("lerp", "addcmul", "addcdiv"), 16.0, "the sum may cancel"),
)

# The same, for the forms in TensorFlow alone
ABSOLUTE_TF: tuple[Absolute, ...] = (
    Absolute(("elu", "selu"), 2.0, "TensorFlow's are exp(x) - 1, which cancels near zero"),
    Absolute(("sin", "cos"), 1.0, "its vectorised ones are not exact near their zeros"),
)
