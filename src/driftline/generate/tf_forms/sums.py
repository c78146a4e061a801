"""TensorFlow forms of operators that add up: reductions, scans, products, normalisation, recurrent cells."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from driftline.generate.operator import Text, Use
from driftline.generate.tf_forms.words import axes_text

# -- reductions --------------------------------------------------------------------------------------------------------


def _reduced(template: str) -> Text:
    """Return a form of a reduction. In the template, `{x}` is the input and `{how}` the axes and `keepdims`."""

    def emit(u: Use) -> str:
        return template.format(x=u.inputs[0], how=f"{axes_text(u['axes'])}, keepdims={u['keepdim']}")

    return emit


def _as_bool(name: str) -> Text:
    def emit(u: Use) -> str:
        x = u.inputs[0] if u.types[0].dtype == "bool" else f"tf.cast({u.inputs[0]}, tf.bool)"
        return f"tf.{name}({x}, {axes_text(u['axes'])}, keepdims={u['keepdim']})"

    return emit


def _variance(u: Use) -> str:
    x, axes, correction = u.inputs[0], axes_text(u["axes"]), u["correction"]
    if not correction:
        return f"tf.math.reduce_variance({x}, {axes}, keepdims={u['keepdim']})"
    shape = u.types[0].shape
    count = math.prod(shape[axis] for axis in u["axes"]) if u["axes"] else math.prod(shape)
    squares = f"tf.math.squared_difference({x}, tf.reduce_mean({x}, {axes}, keepdims=True))"
    return f"tf.reduce_sum({squares}, {axes}, keepdims={u['keepdim']}) / {float(count - correction)}"


def _deviation(u: Use) -> str:
    if not u["correction"]:
        return f"tf.math.reduce_std({u.inputs[0]}, {axes_text(u['axes'])}, keepdims={u['keepdim']})"
    return f"tf.sqrt({_variance(u)})"


def _difference(u: Use) -> str:
    x, colons = u.inputs[0], ":, " * (u["axis"] % u.types[0].rank)
    return f"{x}[{colons}1:] - {x}[{colons}:-1]"


# -- products ----------------------------------------------------------------------------------------------------------


def _matmul(u: Use) -> str:
    (left, right), ranks = u.inputs, [t.rank for t in u.types]
    if ranks == [1, 1]:
        return f"tf.tensordot({left}, {right}, 1)"
    if ranks[1] == 1:
        return f"tf.linalg.matvec({left}, {right})"
    if ranks[0] == 1:
        return f"tf.squeeze(tf.matmul(tf.expand_dims({left}, 0), {right}), [-2])"
    return f"tf.matmul({left}, {right})"


def _scaled(u: Use) -> str:
    left, right, bias = u.inputs
    text = f"{u['alpha']} * tf.matmul({left}, {right})"
    return text if u["beta"] == 0 else f"{text} + {u['beta']} * {bias}"


def _linear(u: Use) -> str:
    x, weight, *bias = u.inputs
    if u.types[0].rank == 1:
        made = f"tf.linalg.matvec({weight}, {x})"
        return f"{made} + {bias[0]}" if bias else made
    made = f"tf.matmul({x}, {weight}, transpose_b=True)"
    return f"tf.nn.bias_add({made}, {bias[0]})" if bias else made


def _einsum(u: Use) -> str:
    return f"tf.einsum({u['equation']!r}, {', '.join(u.inputs)})"


def _attention(u: Use) -> str:
    query, key, value, *mask = u.inputs
    score = f"tf.matmul({query}, {key}, transpose_b=True) * {u['scale']}"
    if mask:
        score += f" + {mask[0]}"
    if u["causal"]:
        seen = f"np.tri({u.types[0].shape[-2]}, dtype=bool)"
        score = f"tf.where({seen}, {score}, tf.constant(float('-inf'), {query}.dtype))"
    return f"tf.matmul(tf.nn.softmax({score}), {value})"


# -- normalisation -----------------------------------------------------------------------------------------------------


def _normalised(x: str, axes: Sequence[int], eps: float, weights: Sequence[str]) -> str:
    scale, shift = weights or ("None", "None")
    moments = ", ".join(f"tf.math.reduce_{kind}({x}, {list(axes)}, keepdims=True)" for kind in ("mean", "variance"))
    return f"tf.nn.batch_normalization({x}, {moments}, {shift}, {scale}, {eps})"


def _along(u: Use, name: str) -> str:
    """Reshape numbers of the channels so that they broadcast."""
    return f"tf.reshape({name}, {[-1] + [1] * (u.types[0].rank - 2)})"


def _layer_norm(u: Use) -> str:
    x, *weights = u.inputs
    axes = range(-u["axes"], 0)
    if len(weights) == 1:
        return f"{_normalised(x, axes, u['eps'], ())} * {weights[0]}"
    return _normalised(x, axes, u["eps"], weights)


def _rms_norm(u: Use) -> str:
    x, *weight = u.inputs
    mean = f"tf.reduce_mean(tf.square({x}), {list(range(-u['axes'], 0))}, keepdims=True)"
    return f"{x} * tf.math.rsqrt({mean} + {u['eps']})" + (f" * {weight[0]}" if weight else "")


def _batch_norm(u: Use) -> str:
    x, mean, var, *weights = (u.inputs[0], *(_along(u, name) for name in u.inputs[1:]))
    scale, shift = weights or ("None", "None")
    return f"tf.nn.batch_normalization({x}, {mean}, {var}, {shift}, {scale}, {u['eps']})"


def _instance_norm(u: Use) -> str:
    x, *weights = u.inputs
    return _normalised(x, range(2, u.types[0].rank), u["eps"], [_along(u, name) for name in weights])


def _group_norm(u: Use) -> str:
    x, *weights = u.inputs
    shape = list(u.types[0].shape)
    cut = f"tf.reshape({x}, {[shape[0], u['groups'], -1]})"
    made = f"tf.reshape({_normalised(cut, [-1], u['eps'], ())}, {shape})"
    return f"{made} * {_along(u, weights[0])} + {_along(u, weights[1])}" if weights else made


def _length(u: Use) -> str:
    x, axis = u.inputs[0], u["axis"]
    if u["p"] == 1:
        return f"tf.reduce_sum(tf.abs({x}), {axis}, keepdims=True)"
    return f"tf.math.reduce_euclidean_norm({x}, {axis}, keepdims=True)"


# -- recurrent cells ---------------------------------------------------------------------------------------------------


def _times(x: str, weight: str) -> str:
    return f"tf.matmul({x}, {weight}, transpose_b=True)"


def _lstm(u: Use) -> str:
    x, h, c, w, r, b, d = u.inputs
    gates = f"tf.split({_times(x, w)} + {b} + {_times(h, r)} + {d}, 4, -1)"
    cell = f"tf.sigmoid(f) * {c} + tf.sigmoid(i) * tf.tanh(g)"
    return f"(lambda i, f, g, o: (lambda c: (tf.sigmoid(o) * tf.tanh(c), c))({cell}))(*{gates})"


def _gru(u: Use) -> str:
    x, h, w, r, b, d = u.inputs
    new = "(lambda z, n: (1 - z) * n + z * h)(tf.sigmoid(xz + hz), tf.tanh(xn + tf.sigmoid(xr + hr) * hn))"
    parts = f"*tf.split({_times(x, w)} + {b}, 3, -1), *tf.split({_times(h, r)} + {d}, 3, -1), {h}"
    return f"(lambda xr, xz, xn, hr, hz, hn, h: {new})({parts})"


def _rnn(u: Use) -> str:
    x, h, w, r, b, d = u.inputs
    return f"tf.tanh({_times(x, w)} + {b} + {_times(h, r)} + {d})"


TEXTS: Mapping[str, Text] = {
    "sum": _reduced("tf.reduce_sum({x}, {how})"),
    "mean": _reduced("tf.reduce_mean({x}, {how})"),
    "prod": _reduced("tf.reduce_prod({x}, {how})"),
    "amax": _reduced("tf.reduce_max({x}, {how})"),
    "amin": _reduced("tf.reduce_min({x}, {how})"),
    "var": _variance,
    "std": _deviation,
    "logsumexp": _reduced("tf.reduce_logsumexp({x}, {how})"),
    "norm_l1": _reduced("tf.reduce_sum(tf.abs({x}), {how})"),
    "norm_l2": _reduced("tf.math.reduce_euclidean_norm({x}, {how})"),
    "norm_inf": _reduced("tf.reduce_max(tf.abs({x}), {how})"),
    "sum_square": _reduced("tf.reduce_sum(tf.square({x}), {how})"),
    "log_sum": _reduced("tf.math.log(tf.reduce_sum({x}, {how}))"),
    "any": _as_bool("reduce_any"),
    "all": _as_bool("reduce_all"),
    "count_nonzero": _reduced("tf.math.count_nonzero({x}, {how})"),
    "cumsum": "tf.cumsum({0}, {axis})",
    "cumsum_window": "tf.cumsum({0}, {axis}, exclusive={exclusive}, reverse={reverse})",
    "cumprod": "tf.math.cumprod({0}, {axis})",
    "logcumsumexp": "tf.math.cumulative_logsumexp({0}, {axis})",
    "diff": _difference,
    "softmax": "tf.nn.softmax({0}, {axis})",
    "log_softmax": "tf.nn.log_softmax({0}, {axis})",
    "softmin": "tf.nn.softmax(-{0}, {axis})",
    "glu": "(lambda a, b: a * tf.sigmoid(b))(*tf.split({0}, 2, {axis}))",
    "mm": "tf.matmul({0}, {1})",
    "bmm": "tf.matmul({0}, {1})",
    "matmul": _matmul,
    "mv": "tf.linalg.matvec({0}, {1})",
    "dot": "tf.tensordot({0}, {1}, 1)",
    "outer": "tf.expand_dims({0}, 1) * {1}",
    "addmm": _scaled,
    "baddbmm": _scaled,
    "linear": _linear,
    "einsum": _einsum,
    "attention": _attention,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "batch_norm": _batch_norm,
    "instance_norm": _instance_norm,
    "group_norm": _group_norm,
    "normalize": lambda u: f"{u.inputs[0]} / tf.maximum({_length(u)}, {u['eps']})",
    "lp_normalization": lambda u: f"{u.inputs[0]} / {_length(u)}",
    "lstm_cell": _lstm,
    "gru_cell": _gru,
    "rnn_tanh_cell": _rnn,
}
