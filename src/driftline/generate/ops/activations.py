"""Activation functions.

Where torch and an ONNX operator handle NaN differently, there are two entries: the torch function with an ONNX
composition, and the ONNX operator with a torch composition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import INTEGERS, NUMBERS, Draw, Invalid, Need, Use
from driftline.generate.ops.rules import IEEE, Drawn, choosing, nothing, one_of, row, same, same_with

if TYPE_CHECKING:
    from driftline.generate.emit_onnx import OnnxWriter

_unary = partial(row, infer=same, drawn=nothing)
_SINGLE = ("float32", "float16")  # where a float32 attribute that is no sum of powers of two is exact enough


def _gelu_erf(w: OnnxWriter, u: Use) -> str:
    x, dtype = u.inputs[0], u.types[0].dtype
    inner = w.node("Erf", w.node("Mul", x, w.scalar(0.5**0.5, dtype)))
    return str(w.node("Mul", w.node("Mul", x, w.scalar(0.5, dtype)), w.node("Add", inner, w.scalar(1, dtype))))


def _gelu_tanh(w: OnnxWriter, u: Use) -> str:
    x, dtype = u.inputs[0], u.types[0].dtype
    cube = w.node("Mul", w.node("Mul", x, x), x)
    inner = w.node("Add", x, w.node("Mul", cube, w.scalar(0.044715, dtype)))
    inner = w.node("Tanh", w.node("Mul", inner, w.scalar(0.7978845608028654, dtype)))
    return str(w.node("Mul", w.node("Mul", x, w.scalar(0.5, dtype)), w.node("Add", inner, w.scalar(1, dtype))))


def _clip(low: str, high: str) -> Any:
    def emit(w: OnnxWriter, u: Use) -> str:
        dtype = u.types[0].dtype
        limits = [w.scalar(u[key], dtype) if key and u[key] is not None else "" for key in (low, high)]
        return str(w.node("Clip", u.inputs[0], *(limits if limits[1] else limits[:1])))

    return emit


def _softplus(w: OnnxWriter, u: Use) -> str:
    beta = u["beta"]
    if beta == 1.0:
        return str(w.node("Softplus", u.inputs[0]))
    scale = w.scalar(beta, u.types[0].dtype)
    return str(w.node("Div", w.node("Softplus", w.node("Mul", u.inputs[0], scale)), scale))


def _hardshrink(w: OnnxWriter, u: Use) -> str:
    x, dtype = u.inputs[0], u.types[0].dtype
    inside = w.node("LessOrEqual", w.node("Abs", x), w.scalar(u["lambd"], dtype))
    return str(w.node("Where", inside, w.scalar(0, dtype), x))


def _threshold(w: OnnxWriter, u: Use) -> str:
    x, dtype = u.inputs[0], u.types[0].dtype
    below = w.node("LessOrEqual", x, w.scalar(u["threshold"], dtype))
    return str(w.node("Where", below, w.scalar(u["value"], dtype), x))


def _limits(draw: Draw, first: TensorType) -> Drawn:
    """Choose a lower limit, an upper one, or both. The lower may be above the upper: torch and jnp then return the
    upper."""
    floats = first.dtype.startswith(("float", "bfloat"))
    low = draw.choice((-1.5, 0.0, 0.5) if floats else (0, 1, 3))
    high = draw.choice((0.5, 2.0, 6.0) if floats else (3, 5, 100))
    kept = draw.choice(("both", "min", "max"))
    return (), {"min": None if kept == "max" else low, "max": None if kept == "min" else high}


def _channel_slopes(draw: Draw, first: TensorType) -> Drawn:
    channels = first.shape[1] if first.rank > 1 and draw.chance(0.7) else 1
    return (Need(TensorType(first.dtype, (channels,)), prefer="parameter"),), {}


def _prelu_rule(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    x, slope = types
    if slope.rank != 1 or slope.dtype != x.dtype or slope.size not in (1, x.shape[1] if x.rank > 1 else 1):
        raise Invalid("one slope, or one for each channel")
    return (x,)


def _prelu_shape(use: Use) -> tuple[int, ...]:
    """Return the shape of the slopes that broadcasts along the channels."""
    return (use.types[1].size, *[1] * (use.types[0].rank - 2)) if use.types[0].rank > 1 else (1,)


OPERATORS = [
    _unary("relu", torch="F.relu({0})", onnx="Relu", jnp="jnp.maximum({0}, 0)", dtypes=NUMBERS,
           onnx_dtypes=(*NUMBERS[:4], *INTEGERS[:4]), edges=(0.0, -0.0)),
    _unary("relu6", torch="F.relu6({0})",
           onnx=lambda w, u: w.node("Clip", u.inputs[0], w.scalar(0, u.types[0].dtype), w.scalar(6, u.types[0].dtype)),
           jnp="jnp.clip({0}, 0, 6)", edges=(0.0, 6.0)),
    _unary("sigmoid", torch="torch.sigmoid({0})", onnx="Sigmoid", jnp="jax.nn.sigmoid({0})", edges=(-88.0, 17.0)),
    row("leaky_relu", same, choosing(slope=one_of(0.015625, 0.25, -0.5)), "F.leaky_relu({0}, {slope})",
        lambda w, u: w.node("LeakyRelu", *u.inputs, alpha=u["slope"]),
        "jnp.where({0} >= 0, {0}, {slope} * {0})", edges=(0.0,)),
    row("elu", same, choosing(alpha=one_of(1.0, 0.5, 2.0)), "F.elu({0}, {alpha})",
        lambda w, u: w.node("Elu", *u.inputs, alpha=u["alpha"]), "jax.nn.elu({0}, {alpha})", onnx_dtypes=IEEE,
        edges=(0.0,)),
    # The constants of Selu are float32 attributes, which differ from torch's constants in float64
    _unary("selu", torch="F.selu({0})", onnx="Selu", jnp="jax.nn.selu({0})", onnx_dtypes=_SINGLE, edges=(0.0,)),
    row("celu", same, choosing(alpha=one_of(1.0, 0.5, 2.0)), "F.celu({0}, {alpha})",
        lambda w, u: w.node("Celu", *u.inputs, alpha=u["alpha"]), "jax.nn.celu({0}, {alpha})",
        onnx_dtypes=("float32",), edges=(0.0,)),
    _unary("gelu", torch="F.gelu({0})", onnx=_gelu_erf, jnp="jax.nn.gelu({0}, approximate=False)"),
    _unary("gelu_tanh", torch='F.gelu({0}, approximate="tanh")', onnx=_gelu_tanh,
           jnp="jax.nn.gelu({0}, approximate=True)"),
    _unary("silu", torch="F.silu({0})", onnx=lambda w, u: w.node("Mul", u.inputs[0], w.node("Sigmoid", u.inputs[0])),
           jnp="jax.nn.silu({0})", edges=(-88.0,)),
    _unary("mish", torch="F.mish({0})", onnx="Mish", jnp="jax.nn.mish({0})", onnx_dtypes=IEEE, edges=(20.0,)),
    # Above its threshold torch gives x itself: at 40 that is exact even in double
    row("softplus", same, choosing(beta=one_of(1.0, 0.5, 2.0)), "F.softplus({0}, beta={beta}, threshold=40.0)",
        _softplus, "jax.nn.softplus({0} * {beta}) / {beta}", onnx_dtypes=IEEE, edges=(20.0, 40.0, -40.0)),
    _unary("logsigmoid", torch="F.logsigmoid({0})",
           onnx=lambda w, u: w.node("Neg", w.node("Softplus", w.node("Neg", u.inputs[0]))),
           jnp="jax.nn.log_sigmoid({0})", onnx_dtypes=IEEE, edges=(-88.0, 0.0)),
    _unary("softsign", torch="F.softsign({0})", onnx="Softsign", jnp="jax.nn.soft_sign({0})", onnx_dtypes=IEEE,
           rank=(1, 5)),  # the reference evaluator fails without axes
    _unary("hardswish", torch="F.hardswish({0})", onnx="HardSwish", jnp="jax.nn.hard_swish({0})",
           onnx_dtypes=_SINGLE, edges=(-3.0, 3.0)),
    _unary("hardsigmoid", torch="F.hardsigmoid({0})", onnx=lambda w, u: w.node("HardSigmoid", *u.inputs, alpha=1 / 6),
           jnp="jax.nn.hard_sigmoid({0})", onnx_dtypes=_SINGLE, edges=(-3.0, 3.0)),
    row("hardtanh", same, choosing(low=one_of(-1.0, -0.5), high=one_of(1.0, 0.75)), "F.hardtanh({0}, {low}, {high})",
        _clip("low", "high"), "jnp.clip({0}, {low}, {high})", edges=(-1.0, 1.0)),
    row("hardshrink", same, choosing(lambd=one_of(0.5, 1.0, 0.0)), "F.hardshrink({0}, {lambd})", _hardshrink,
        "jnp.where(jnp.abs({0}) <= {lambd}, 0, {0})", edges=(0.5, -0.5, 1.0)),
    row("softshrink", same, choosing(lambd=one_of(0.5, 1.0, 0.0)), "F.softshrink({0}, {lambd})", None,
        "jnp.where({0} > {lambd}, {0} - {lambd}, jnp.where({0} < -{lambd}, {0} + {lambd}, {0} * 0))",
        edges=(0.5, -0.5, 1.0)),
    row("shrink", same, choosing(lambd=one_of(0.5, 1.0), bias=one_of(0.0, 0.5, 1.0)),
        "torch.where({0} < -{lambd}, {0} + {bias}, torch.where({0} > {lambd}, {0} - {bias}, torch.zeros_like({0})))",
        lambda w, u: w.node("Shrink", *u.inputs, lambd=u["lambd"], bias=u["bias"]),
        "jnp.where({0} < -{lambd}, {0} + {bias}, jnp.where({0} > {lambd}, {0} - {bias}, jnp.zeros_like({0})))",
        onnx_dtypes=IEEE, edges=(0.5, -0.5, 1.0)),
    _unary("tanhshrink", torch="F.tanhshrink({0})",
           onnx=lambda w, u: w.node("Sub", u.inputs[0], w.node("Tanh", u.inputs[0])), jnp="{0} - jnp.tanh({0})"),
    row("threshold", same, choosing(threshold=one_of(0.0, 0.5, -1.0), value=one_of(0.0, 2.0, -1.0)),
        "F.threshold({0}, {threshold}, {value})", _threshold, "jnp.where({0} <= {threshold}, {value}, {0})",
        edges=(0.0, 0.5, -1.0)),
    row("thresholded_relu", same, choosing(alpha=one_of(1.0, 0.5, 0.0)),
        "torch.where({0} > {alpha}, {0}, torch.zeros_like({0}))",
        lambda w, u: w.node("ThresholdedRelu", *u.inputs, alpha=u["alpha"]),
        "jnp.where({0} > {alpha}, {0}, jnp.zeros_like({0}))", onnx_dtypes=IEEE, edges=(1.0, 0.5, 0.0)),
    row("prelu", _prelu_rule, _channel_slopes, "F.prelu({0}, {1})",
        lambda w, u: w.node("PRelu", u.inputs[0], w.node("Reshape", u.inputs[1], w.ints(_prelu_shape(u)))),
        lambda u: "jnp.where({0} > 0, {0}, {0} * {1}.reshape({2}))".format(*u.inputs, _prelu_shape(u)),
        rank=(1, 5), edges=(0.0,)),
    row("clamp", same_with("min", "max"), _limits, "torch.clamp({0}, {min}, {max})", _clip("min", "max"),
        "jnp.clip({0}, {min}, {max})", dtypes=NUMBERS, edges=(-1.5, 0.0, 0.5, 2.0, 6.0)),
]  # fmt: skip
