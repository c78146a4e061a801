"""Elementwise arithmetic and functions of real numbers.

Attributes are sums of few powers of two: an ONNX attribute is a float32, so 0.1 would be a different number in a
float64 model than in the torch program.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from driftline.generate.operator import FLOATS, INTEGERS, NUMBERS, WIDE_UNSIGNED, Use
from driftline.generate.ops.rules import IEEE, another, both, broadcast, more_of, nothing, one_of, row, same

if TYPE_CHECKING:
    from driftline.generate.emit_onnx import OnnxWriter

_UNSIGNED_TOO = (*NUMBERS, *WIDE_UNSIGNED)  # ONNX and jnp know the wide unsigned types, torch hardly
_unary = partial(row, infer=same, drawn=nothing)
_binary = partial(row, infer=broadcast, drawn=another)


def _trunc(w: OnnxWriter, u: Use) -> str:
    x = u.inputs[0]
    return str(w.node("Mul", w.node("Sign", x), w.node("Floor", w.node("Abs", x))))


def _log_base(base: float) -> object:
    """Write a logarithm of another base, since ONNX has only the natural one."""

    def emit(w: OnnxWriter, u: Use) -> str:
        return str(w.node("Div", w.node("Log", u.inputs[0]), w.node("Log", w.scalar(base, u.types[0].dtype))))

    return emit


def _lerp(w: OnnxWriter, u: Use) -> str:
    """Interpolate from the nearer end, as torch does."""
    x, end = u.inputs
    dtype, weight = u.types[0].dtype, u["weight"]
    span = w.node("Sub", end, x)
    if abs(weight) < 0.5:
        return str(w.node("Add", x, w.node("Mul", w.scalar(weight, dtype), span)))
    return str(w.node("Sub", end, w.node("Mul", span, w.scalar(1 - weight, dtype))))


def _lerp_jnp(u: Use) -> str:
    x, end = u.inputs
    weight = u["weight"]
    return f"{x} + {weight} * ({end} - {x})" if abs(weight) < 0.5 else f"{end} - ({end} - {x}) * {1 - weight}"


def _nan_to_num(w: OnnxWriter, u: Use) -> str:
    made, dtype = u.inputs[0], u.types[0].dtype
    tests = (
        ("nan", w.node("IsNaN", made)),
        ("posinf", w.node("IsInf", made, detect_negative=0)),
        ("neginf", w.node("IsInf", made, detect_positive=0)),
    )
    for key, test in tests:
        made = w.node("Where", test, w.scalar(u[key], dtype), made)
    return str(made)


OPERATORS = [
    _binary("add", torch="torch.add({0}, {1})", onnx="Add", jnp="jnp.add({0}, {1})",
            dtypes=_UNSIGNED_TOO, torch_dtypes=NUMBERS),
    _binary("sub", torch="torch.sub({0}, {1})", onnx="Sub", jnp="jnp.subtract({0}, {1})",
            dtypes=_UNSIGNED_TOO, torch_dtypes=NUMBERS),
    _binary("mul", torch="torch.mul({0}, {1})", onnx="Mul", jnp="jnp.multiply({0}, {1})",
            dtypes=_UNSIGNED_TOO, torch_dtypes=NUMBERS),
    _binary("div", torch="torch.div({0}, {1})", onnx="Div", jnp="jnp.divide({0}, {1})", edges=(0.0,)),
    _binary("pow", torch="torch.pow({0}, {1})", onnx="Pow", jnp="jnp.power({0}, {1})", edges=(0.0, 1.0, -1.0)),
    _binary("fmod", torch="torch.fmod({0}, {1})", onnx=lambda w, u: w.node("Mod", *u.inputs, fmod=1),
            jnp="jnp.fmod({0}, {1})", edges=(0.0,)),
    _binary("remainder", torch="torch.remainder({0}, {1})", jnp="jnp.remainder({0}, {1})", edges=(0.0,)),
    _binary("maximum", torch="torch.maximum({0}, {1})", onnx="Max", jnp="jnp.maximum({0}, {1})",
            dtypes=_UNSIGNED_TOO, torch_dtypes=NUMBERS),
    _binary("minimum", torch="torch.minimum({0}, {1})", onnx="Min", jnp="jnp.minimum({0}, {1})",
            dtypes=_UNSIGNED_TOO, torch_dtypes=NUMBERS),
    _binary("fmax", torch="torch.fmax({0}, {1})", jnp="jnp.fmax({0}, {1})"),
    _binary("fmin", torch="torch.fmin({0}, {1})", jnp="jnp.fmin({0}, {1})"),
    _binary("atan2", torch="torch.atan2({0}, {1})", jnp="jnp.arctan2({0}, {1})", edges=(0.0, -0.0)),
    _binary("hypot", torch="torch.hypot({0}, {1})", jnp="jnp.hypot({0}, {1})"),
    _binary("xlogy", torch="torch.xlogy({0}, {1})", jnp="jax.scipy.special.xlogy({0}, {1})", edges=(0.0, 1.0)),
    _binary("logaddexp", torch="torch.logaddexp({0}, {1})", jnp="jnp.logaddexp({0}, {1})",
            dtypes=("float32", "float64"), edges=(88.72, -87.33)),
    _binary("copysign", torch="torch.copysign({0}, {1})", jnp="jnp.copysign({0}, {1})", edges=(0.0, -0.0)),
    _unary("abs", torch="torch.abs({0})", onnx="Abs", jnp="jnp.abs({0})", dtypes=_UNSIGNED_TOO, torch_dtypes=NUMBERS),
    _unary("neg", torch="torch.neg({0})", onnx="Neg", jnp="jnp.negative({0})", dtypes=_UNSIGNED_TOO,
           torch_dtypes=NUMBERS, onnx_dtypes=(*FLOATS, *INTEGERS[:-1])),
    _unary("sign", torch="torch.sign({0})", onnx="Sign", jnp="jnp.sign({0})",
           dtypes=_UNSIGNED_TOO, torch_dtypes=NUMBERS, edges=(0.0,)),
    _unary("square", torch="torch.square({0})", onnx=lambda w, u: w.node("Mul", u.inputs[0], u.inputs[0]),
           jnp="jnp.square({0})", dtypes=_UNSIGNED_TOO, torch_dtypes=NUMBERS),
    _unary("sqrt", torch="torch.sqrt({0})", onnx="Sqrt", jnp="jnp.sqrt({0})", edges=(0.0,)),
    _unary("rsqrt", torch="torch.rsqrt({0})", onnx=lambda w, u: w.node("Reciprocal", w.node("Sqrt", u.inputs[0])),
           jnp="lax.rsqrt({0})", edges=(0.0,)),
    _unary("reciprocal", torch="torch.reciprocal({0})", onnx="Reciprocal", jnp="jnp.reciprocal({0})", edges=(0.0,)),
    _unary("exp", torch="torch.exp({0})", onnx="Exp", jnp="jnp.exp({0})", edges=(88.72, -87.33, 709.78)),
    _unary("exp2", torch="torch.exp2({0})",
           onnx=lambda w, u: w.node("Pow", w.scalar(2, u.types[0].dtype), u.inputs[0]),
           jnp="jnp.exp2({0})", edges=(127.9, 128.0, -126.0, 1024.0)),
    # ONNX has neither expm1 nor log1p, and exp(x) - 1 is another function near zero
    _unary("expm1", torch="torch.expm1({0})", jnp="jnp.expm1({0})", edges=(0.0, 1e-6, 88.72)),
    _unary("log1p", torch="torch.log1p({0})", jnp="jnp.log1p({0})", edges=(-1.0, 1e-6)),
    _unary("log", torch="torch.log({0})", onnx="Log", jnp="jnp.log({0})", edges=(0.0, 1.0)),
    _unary("log2", torch="torch.log2({0})", onnx=_log_base(2.0), jnp="jnp.log2({0})", edges=(0.0, 1.0)),
    _unary("log10", torch="torch.log10({0})", onnx=_log_base(10.0), jnp="jnp.log10({0})", edges=(0.0, 1.0)),
    _unary("sin", torch="torch.sin({0})", onnx="Sin", jnp="jnp.sin({0})", onnx_dtypes=IEEE, edges=(3.1415927, 1e5)),
    _unary("cos", torch="torch.cos({0})", onnx="Cos", jnp="jnp.cos({0})", onnx_dtypes=IEEE, edges=(1.5707964, 1e5)),
    _unary("tan", torch="torch.tan({0})", onnx="Tan", jnp="jnp.tan({0})", onnx_dtypes=IEEE, edges=(1.5707964,)),
    _unary("asin", torch="torch.asin({0})", onnx="Asin", jnp="jnp.arcsin({0})", onnx_dtypes=IEEE, edges=(1.0, -1.0)),
    _unary("acos", torch="torch.acos({0})", onnx="Acos", jnp="jnp.arccos({0})", onnx_dtypes=IEEE, edges=(1.0, -1.0)),
    _unary("atan", torch="torch.atan({0})", onnx="Atan", jnp="jnp.arctan({0})", onnx_dtypes=IEEE),
    _unary("sinh", torch="torch.sinh({0})", onnx="Sinh", jnp="jnp.sinh({0})", onnx_dtypes=IEEE, edges=(89.4,)),
    _unary("cosh", torch="torch.cosh({0})", onnx="Cosh", jnp="jnp.cosh({0})", onnx_dtypes=IEEE, edges=(89.4,)),
    _unary("tanh", torch="torch.tanh({0})", onnx="Tanh", jnp="jnp.tanh({0})", edges=(9.0, -9.0)),
    _unary("asinh", torch="torch.asinh({0})", onnx="Asinh", jnp="jnp.arcsinh({0})", onnx_dtypes=IEEE),
    _unary("acosh", torch="torch.acosh({0})", onnx="Acosh", jnp="jnp.arccosh({0})", onnx_dtypes=IEEE, edges=(1.0,)),
    _unary("atanh", torch="torch.atanh({0})", onnx="Atanh", jnp="jnp.arctanh({0})", onnx_dtypes=IEEE,
           edges=(1.0, -1.0)),
    _unary("erf", torch="torch.erf({0})", onnx="Erf", jnp="jax.scipy.special.erf({0})", edges=(3.9, -3.9)),
    _unary("erfc", torch="torch.erfc({0})", jnp="jax.scipy.special.erfc({0})", edges=(10.0,)),
    _unary("floor", torch="torch.floor({0})", onnx="Floor", jnp="jnp.floor({0})", edges=(0.5, -0.5, 8388609.0)),
    _unary("ceil", torch="torch.ceil({0})", onnx="Ceil", jnp="jnp.ceil({0})", edges=(0.5, -0.5, 8388609.0)),
    _unary("round", torch="torch.round({0})", onnx="Round", jnp="jnp.round({0})", onnx_dtypes=IEEE,
           edges=(0.5, 1.5, 2.5, -0.5, -1.5)),
    _unary("trunc", torch="torch.trunc({0})", onnx=_trunc, jnp="jnp.trunc({0})", edges=(0.5, -0.5)),
    _unary("frac", torch="torch.frac({0})", onnx=lambda w, u: w.node("Sub", u.inputs[0], _trunc(w, u)),
           jnp="{0} - jnp.trunc({0})", edges=(0.5, -0.5)),
    row("lerp", broadcast, both(another, weight=one_of(0.0, 0.25, 0.5, 0.75, 1.0, -0.25, 1.5)),
        "torch.lerp({0}, {1}, {weight})", _lerp, _lerp_jnp),
    row("addcmul", broadcast, both(more_of(2), value=one_of(1.0, -1.0, 0.5, 2.0, 0.0)),
        "torch.addcmul({0}, {1}, {2}, value={value})",
        lambda w, u: w.node("Add", u.inputs[0], w.node("Mul", w.node(
            "Mul", w.scalar(u["value"], u.types[0].dtype), u.inputs[1]), u.inputs[2])),
        "{0} + {value} * {1} * {2}"),
    row("addcdiv", broadcast, both(more_of(2), value=one_of(1.0, -1.0, 0.5, 2.0, 0.0)),
        "torch.addcdiv({0}, {1}, {2}, value={value})",
        lambda w, u: w.node("Add", u.inputs[0], w.node("Div", w.node(
            "Mul", w.scalar(u["value"], u.types[0].dtype), u.inputs[1]), u.inputs[2])),
        "{0} + {value} * {1} / {2}", edges=(0.0,)),
    row("nan_to_num", same,
        lambda draw, first: ((), {key: draw.choice((0.0, 1.0, -2.0, 1024.0)) for key in ("nan", "posinf", "neginf")}),
        "torch.nan_to_num({0}, nan={nan}, posinf={posinf}, neginf={neginf})", _nan_to_num,
        "jnp.nan_to_num({0}, nan={nan}, posinf={posinf}, neginf={neginf})",
        onnx_dtypes=("float32", "float64"), edges=(float("inf"), float("-inf"), float("nan"))),
]  # fmt: skip
