"""TensorFlow forms of elementwise operators: arithmetic, activations, comparisons, casts."""

from __future__ import annotations

from collections.abc import Mapping

from driftline.generate.operator import Text, Use


def _lerp(u: Use) -> str:
    """Interpolate from the nearer end, as torch does."""
    x, end = u.inputs
    weight = u["weight"]
    return f"{x} + {weight} * ({end} - {x})" if abs(weight) < 0.5 else f"{end} - ({end} - {x}) * {1 - weight}"


def _nan_to_num(u: Use) -> str:
    x = u.inputs[0]
    finite = f"tf.where({x} == float('inf'), tf.constant({u['posinf']}, {x}.dtype), {x})"
    finite = f"tf.where({x} == float('-inf'), tf.constant({u['neginf']}, {x}.dtype), {finite})"
    return f"tf.where(tf.math.is_nan({x}), tf.constant({u['nan']}, {x}.dtype), {finite})"


def _elu(u: Use) -> str:
    x, alpha = u.inputs[0], u["alpha"]
    return f"tf.nn.elu({x})" if alpha == 1 else f"tf.where({x} > 0, {x}, {alpha} * tf.math.expm1({x}))"


def _prelu(u: Use) -> str:
    """Write a PReLU with the slopes reshaped to broadcast along the channels."""
    x, slope = u.inputs
    shape = [u.types[1].size, *[1] * (u.types[0].rank - 2)] if u.types[0].rank > 1 else [1]
    return f"tf.where({x} > 0, {x}, {x} * tf.reshape({slope}, {shape}))"


def _clamp(u: Use) -> str:
    """Write a clamp. If the lower limit is above the upper, torch returns the upper, but `tf.clip_by_value` the
    lower."""
    text = str(u.inputs[0])
    if u["min"] is not None:
        text = f"tf.maximum({text}, {u['min']})"
    return text if u["max"] is None else f"tf.minimum({text}, {u['max']})"


def _cast(u: Use) -> str:
    """Write a cast that replaces floats out of an integer's range by zero, since TensorFlow leaves their cast
    undefined."""
    x, to = u.inputs[0], str(u["to"])
    if "int" in to and "float" in u.types[0].dtype:
        bits = int(to.partition("int")[2])
        low, high = (0, 2**bits) if to.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        x = f"tf.where((({x} > {low - 1}.0) | ({x} == {low}.0)) & ({x} < {high}.0), {x}, tf.zeros_like({x}))"
    return f"tf.cast({x}, tf.{to})"


def _logical(name: str) -> Text:
    """Return a form that casts to bool first, since TensorFlow's logical operators accept only bool."""

    def emit(u: Use) -> str:
        taken = zip(u.inputs, u.types, strict=True)
        return f"tf.{name}({', '.join(x if t.dtype == 'bool' else f'tf.cast({x}, tf.bool)' for x, t in taken)})"

    return emit


def _bitwise(name: str) -> Text:
    """Return a form that uses the logical operator for bool, and the bitwise one for integers."""

    def emit(u: Use) -> str:
        words = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "math.logical_xor"}
        own = words.get(name, "logical_not") if u.types[0].dtype == "bool" else f"bitwise.{name}"
        return f"tf.{own.replace('bitwise_not', 'invert')}({', '.join(u.inputs)})"

    return emit


_TRUNC = "tf.sign({0}) * tf.floor(tf.abs({0}))"

TEXTS: Mapping[str, Text] = {
    # arithmetic
    "add": "tf.add({0}, {1})",
    "sub": "tf.subtract({0}, {1})",
    "mul": "tf.multiply({0}, {1})",
    "div": "tf.divide({0}, {1})",
    "pow": "tf.pow({0}, {1})",
    "fmod": "tf.truncatemod({0}, {1})",
    "remainder": "tf.math.floormod({0}, {1})",
    "maximum": "tf.maximum({0}, {1})",
    "minimum": "tf.minimum({0}, {1})",
    "atan2": "tf.atan2({0}, {1})",
    "xlogy": "tf.math.xlogy({0}, {1})",
    "abs": "tf.abs({0})",
    "neg": "tf.negative({0})",
    "sign": "tf.sign({0})",
    "square": "tf.square({0})",
    "sqrt": "tf.sqrt({0})",
    "rsqrt": "tf.math.rsqrt({0})",
    "reciprocal": "tf.math.reciprocal({0})",
    "exp": "tf.exp({0})",
    "expm1": "tf.math.expm1({0})",
    "log1p": "tf.math.log1p({0})",
    "log": "tf.math.log({0})",
    "sin": "tf.sin({0})",
    "cos": "tf.cos({0})",
    "tan": "tf.tan({0})",
    "asin": "tf.asin({0})",
    "acos": "tf.acos({0})",
    "atan": "tf.atan({0})",
    "sinh": "tf.sinh({0})",
    "cosh": "tf.cosh({0})",
    "tanh": "tf.tanh({0})",
    "asinh": "tf.asinh({0})",
    "acosh": "tf.acosh({0})",
    "atanh": "tf.atanh({0})",
    "erf": "tf.math.erf({0})",
    "erfc": "tf.math.erfc({0})",
    "floor": "tf.floor({0})",
    "ceil": "tf.math.ceil({0})",
    "round": "tf.round({0})",
    "trunc": _TRUNC,
    "frac": f"{{0}} - {_TRUNC}",
    "lerp": _lerp,
    "addcmul": "{0} + {value} * {1} * {2}",
    "addcdiv": "{0} + {value} * {1} / {2}",
    "nan_to_num": _nan_to_num,
    # with a number
    "add_scalar": "{0} + {scalar}",
    "sub_scalar": "{0} - {scalar}",
    "rsub_scalar": "{scalar} - {0}",
    "mul_scalar": "{0} * {scalar}",
    "div_scalar": "{0} / {scalar}",
    "rdiv_scalar": "{scalar} / {0}",
    "pow_scalar": "{0} ** {scalar}",
    "rpow_scalar": "{scalar} ** {0}",
    "clamp_tensors": "tf.minimum(tf.maximum({0}, {1}), {2})",
    # integers
    "div_trunc": "tf.truncatediv({0}, {1})",
    "div_floor": "tf.math.floordiv({0}, {1})",
    "int_fmod": "tf.truncatemod({0}, {1})",
    "int_remainder": "tf.math.floormod({0}, {1})",
    "div_floor_scalar": "{0} // {scalar}",
    "remainder_scalar": "{0} % {scalar}",
    "int_pow": "tf.pow({0}, {1})",
    **{name: _bitwise(name) for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")},
    "left_shift": "tf.bitwise.left_shift({0}, {1})",
    "right_shift": "tf.bitwise.right_shift({0}, {1})",
    # activations
    "relu": "tf.nn.relu({0})",
    "relu6": "tf.nn.relu6({0})",
    "sigmoid": "tf.sigmoid({0})",
    "leaky_relu": "tf.nn.leaky_relu({0}, alpha={slope})",
    "elu": _elu,
    "selu": "tf.nn.selu({0})",
    "celu": "tf.maximum({0}, 0) + tf.minimum({alpha} * tf.math.expm1({0} / {alpha}), 0)",
    "gelu": "tf.nn.gelu({0})",
    "gelu_tanh": "tf.nn.gelu({0}, approximate=True)",
    "silu": "tf.nn.silu({0})",
    "mish": "{0} * tf.tanh(tf.nn.softplus({0}))",
    "softplus": "tf.nn.softplus({0} * {beta}) / {beta}",
    "logsigmoid": "tf.math.log_sigmoid({0})",
    "softsign": "tf.nn.softsign({0})",
    "hardswish": "{0} * tf.nn.relu6({0} + 3) / 6",
    "hardsigmoid": "tf.nn.relu6({0} + 3) / 6",
    "hardtanh": "tf.clip_by_value({0}, {low}, {high})",
    "hardshrink": "tf.where(tf.abs({0}) <= {lambd}, tf.zeros_like({0}), {0})",
    "softshrink": "tf.where({0} > {lambd}, {0} - {lambd}, tf.where({0} < -{lambd}, {0} + {lambd}, {0} * 0))",
    "shrink": "tf.where({0} < -{lambd}, {0} + {bias}, tf.where({0} > {lambd}, {0} - {bias}, tf.zeros_like({0})))",
    "tanhshrink": "{0} - tf.tanh({0})",
    "threshold": "tf.where({0} <= {threshold}, tf.constant({value}, {0}.dtype), {0})",
    "thresholded_relu": "tf.where({0} > {alpha}, {0}, tf.zeros_like({0}))",
    "prelu": _prelu,
    "clamp": _clamp,
    # comparisons, choices, casts
    "eq": "tf.equal({0}, {1})",
    "ne": "tf.not_equal({0}, {1})",
    "lt": "tf.less({0}, {1})",
    "le": "tf.less_equal({0}, {1})",
    "gt": "tf.greater({0}, {1})",
    "ge": "tf.greater_equal({0}, {1})",
    "logical_and": _logical("logical_and"),
    "logical_or": _logical("logical_or"),
    "logical_xor": _logical("math.logical_xor"),
    "logical_not": _logical("logical_not"),
    "isnan": "tf.math.is_nan({0})",
    "isinf": "tf.math.is_inf({0})",
    "isfinite": "tf.math.is_finite({0})",
    "where": "tf.where({1}, {0}, {2})",
    "masked_fill": "tf.where({1}, tf.constant({value}, {0}.dtype), {0})",
    "cast": _cast,
    "cast_unsigned": _cast,
    # complex numbers
    "complex_from_parts": "tf.complex({0}, {1})",
    "polar": "tf.complex({0} * tf.cos({1}), {0} * tf.sin({1}))",
    "real": "tf.math.real({0})",
    "imag": "tf.math.imag({0})",
    "complex_abs": "tf.abs({0})",
    "angle": "tf.math.angle({0})",
    "conj": "tf.math.conj({0})",
    "conj_physical": "tf.math.conj({0})",
    "complex_add": "tf.add({0}, {1})",
    "complex_sub": "tf.subtract({0}, {1})",
    "complex_mul": "tf.multiply({0}, {1})",
    "complex_exp": "tf.exp({0})",
    "complex_neg": "tf.negative({0})",
    "view_as_real": "tf.stack([tf.math.real({0}), tf.math.imag({0})], -1)",
    "view_as_complex": "tf.complex({0}[..., 0], {0}[..., 1])",
}
