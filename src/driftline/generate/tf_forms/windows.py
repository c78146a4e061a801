"""TensorFlow forms of operators with a window: convolutions, pooling, resizing.

TensorFlow's CPU kernels need channels last, so images are transposed before and after, as a user would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from driftline.generate.operator import Text, Use
from driftline.generate.tf_forms.words import channels_first, channels_last


def _weights_last(weight: str, rank: int) -> str:
    """Transpose weights from (out, in, *kernel), or (in, out, *kernel) of a transposed convolution, to (*kernel, in,
    out)."""
    return f"tf.transpose({weight}, {[*range(2, rank), 1, 0]})"


def _padded(x: str, pads: Sequence[Sequence[int]], value: str = "0") -> str:
    """Pad the image axes, which are between batch and channels."""
    if not any(map(any, pads)):
        return x
    constant = "" if value == "0" else f", constant_values={value}"
    return f"tf.pad({x}, {[[0, 0], *map(list, pads), [0, 0]]}{constant})"


def _strided(text: str, strides: Sequence[int]) -> str:
    """Select every n-th window of each axis, which applies strides afterwards."""
    return f"{text}[:, {', '.join(f'::{s}' for s in strides)}, :]"


def _conv(u: Use) -> str:
    rank, dimensions = u.types[0].rank, u.types[0].rank - 2
    strides, dilations, groups = list(u["strides"]), list(u["dilations"]), u["groups"]
    x, weight = channels_last(u.inputs[0], rank), _weights_last(u.inputs[1], rank)
    named = u["pads"].upper() if isinstance(u["pads"], str) else "VALID"
    around = [] if isinstance(u["pads"], str) else [[p, p] for p in u["pads"]]
    if dimensions == 2 and any(map(any, around)):
        how = f"{[[0, 0], *around, [0, 0]]}"
    else:
        x, how = _padded(x, around) if around else x, repr(named)
    if dimensions == 1:
        made = f"tf.nn.conv1d({x}, {weight}, {strides[0]}, {how}, dilations={dilations[0]})"
    elif dimensions == 2:
        made = f"tf.nn.conv2d({x}, {weight}, {strides}, {how}, dilations={dilations})"
    else:
        made = _conv3d(x, weight, strides, dilations, groups)
    return _finished(made, u)


def _conv3d(x: str, weight: str, strides: list[int], dilations: list[int], groups: int) -> str:
    """Write a 3-d convolution. TensorFlow's CPU kernel has no groups, and dilations only through `tf.nn.convolution`
    without strides."""

    def whole(image: str, kernel: str) -> str:
        if max(dilations) == 1:
            return f'tf.nn.conv3d({image}, {kernel}, {[1, *strides, 1]}, "VALID")'
        made = f'tf.nn.convolution({image}, {kernel}, padding="VALID", dilations={dilations})'
        return _strided(made, strides) if max(strides) > 1 else made

    return whole(x, weight) if groups == 1 else _each_group(whole("i", "k"), x, weight, groups)


def _each_group(one: str, x: str, weight: str, groups: int) -> str:
    """Write an operation for each group of channels. `one` uses the names `i` for the group's image and `k` for its
    weights."""
    pairs = f"zip(tf.split({x}, {groups}, -1), tf.split({weight}, {groups}, -1))"
    return f"tf.concat([{one} for i, k in {pairs}], -1)"


def _depthwise(u: Use) -> str:
    """Write a depthwise convolution. TensorFlow's own needs equal strides, and no dilation with strides; else `_conv`
    is used."""
    strides, dilations = list(u["strides"]), list(u["dilations"])
    if len(set(strides)) > 1 or (max(strides) > 1 and max(dilations) > 1):
        return _conv(u)
    channels, (outputs, _, *kernel) = u.types[0].shape[1], u.types[1].shape
    weight = f"tf.transpose(tf.reshape({u.inputs[1]}, {[channels, outputs // channels, *kernel]}), [2, 3, 0, 1])"
    x = _padded(channels_last(u.inputs[0], 4), [[p, p] for p in u["pads"]])
    return _finished(f'tf.nn.depthwise_conv2d({x}, {weight}, {[1, *strides, 1]}, "VALID", dilations={dilations})', u)


def _finished(made: str, u: Use) -> str:
    if len(u.inputs) > 2:
        made = f"tf.nn.bias_add({made}, {u.inputs[2]})"
    return channels_first(made, u.types[0].rank)


# -- pooling -----------------------------------------------------------------------------------------------------------


def _room(u: Use) -> list[list[int]]:
    """Return padding before and after each axis that gives exactly the windows of the result."""
    pads = []
    for axis, size in enumerate(u.types[0].shape[2:]):
        reach = u["dilations"][axis] * (u["kernel"][axis] - 1) + 1
        needed = (u.outputs[0].shape[2 + axis] - 1) * u["strides"][axis] + reach
        before = u["pads"][axis]
        pads.append([before, max(needed - size - before, 0)])
    return pads


def _pool(kind: str, x: str, u: Use) -> str:
    kernel, strides, dilations = list(u["kernel"]), list(u["strides"]), list(u["dilations"])
    if max(dilations) > 1:
        made = f'tf.nn.pool({x}, {kernel}, "{kind.upper()}", dilations={dilations})'
        return _strided(made, strides) if max(strides) > 1 else made
    return f'tf.nn.{kind}_pool{len(kernel)}d({x}, {kernel}, {strides}, "VALID")'


def _max_pool(u: Use) -> str:
    rank = u.types[0].rank
    x = _padded(channels_last(u.inputs[0], rank), _room(u), "float('-inf')")
    return channels_first(_pool("max", x, u), rank)


def _avg_pool(u: Use) -> str:
    """Write a mean over the padded window, divided by the share of elements that count."""
    rank, room = u.types[0].rank, _room(u)
    made = _pool("avg", _padded(channels_last(u.inputs[0], rank), room), u)
    counted = [[p, p] if u["count_pad"] else [0, 0] for p in u["pads"]]
    inside = [size + sum(own) for size, own in zip(u.types[0].shape[2:], counted, strict=True)]
    around = [[w[0] - own[0], max(w[1] - own[1], 0)] for w, own in zip(room, counted, strict=True)]
    if any(map(any, around)):
        ones = f"tf.ones({[1, *inside, 1]}, {u.inputs[0]}.dtype)"
        made = f"{made} / {_pool('avg', _padded(ones, around), u)}"
    return channels_first(made, rank)


def _global(kind: str) -> Text:
    return lambda u: f"tf.reduce_{kind}({u.inputs[0]}, {list(range(2, u.types[0].rank))}, keepdims=True)"


# -- transposed convolutions and images made larger ------------------------------------------------------------------


def _transposed(u: Use) -> str:
    """Write the whole result with room for the output padding, then cut off the padding."""
    rank, dimensions = u.types[0].rank, u.types[0].rank - 2
    (batch, _, *image), groups = u.types[0].shape, u["groups"]
    whole = [
        (size - 1) * s + d * (k - 1) + 1 + e
        for size, s, d, k, e in zip(image, u["strides"], u["dilations"], u["kernel"], u["extra"], strict=True)
    ]
    each = u.types[1].shape[1]
    name = f"tf.nn.conv{dimensions}d_transpose"
    strides = list(u["strides"])

    def one(x: str, weight: str) -> str:
        return f'{name}({x}, {weight}, {[batch, *whole, each]}, {strides if dimensions > 1 else strides[0]}, "VALID")'

    x = channels_last(u.inputs[0], rank)
    weight = _weights_last(_dilated(u), rank)
    made = one(x, weight) if groups == 1 else _each_group(one("i", "k"), x, weight, groups)
    cuts = [f"{p}:{p + size}" for p, size in zip(u["pads"], u.outputs[0].shape[2:], strict=True)]
    if any(u["pads"]):
        made = f"{made}[:, {', '.join(cuts)}, :]"
    return _finished(made, u)


def _dilated(u: Use) -> str:
    """Insert zeros into the weight, since TensorFlow has no dilated transposed convolution on a CPU."""
    if max(u["dilations"]) == 1:
        return str(u.inputs[1])
    made, shape = u.inputs[1], list(u.types[1].shape)
    for axis, (d, k) in enumerate(zip(u["dilations"], u["kernel"], strict=True), start=2):
        if d > 1:
            behind = [[0, 0]] * (axis + 1) + [[0, d - 1]] + [[0, 0]] * (len(shape) - axis - 1)
            grown = [*shape[:axis], k * d, *shape[axis + 1 :]]
            shape[axis] = d * (k - 1) + 1
            made = f"tf.reshape(tf.pad(tf.expand_dims({made}, {axis + 1}), {behind}), {grown})"
            made = f"{made}[{':, ' * axis}:{shape[axis]}]"
    return str(made)


def _resized(method: str) -> Text:
    def emit(u: Use) -> str:
        size = list(u.outputs[0].shape[2:])
        return channels_first(f'tf.image.resize({channels_last(u.inputs[0], 4)}, {size}, "{method}")', 4)

    return emit


_CONVOLUTIONS = "conv1d conv2d conv3d conv1d_depthwise conv1d_same conv1d_valid conv2d_same conv2d_valid".split()
_BACKWARDS = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]
_BACKWARDS += ["conv_transpose2d_depthwise", "conv_transpose2d_grouped"]

TEXTS: Mapping[str, Text] = {
    **dict.fromkeys(_CONVOLUTIONS, _conv),
    "conv2d_depthwise": _depthwise,
    **dict.fromkeys(_BACKWARDS, _transposed),
    **{f"max_pool{n}d": _max_pool for n in (1, 2, 3)},
    **{f"avg_pool{n}d": _avg_pool for n in (1, 2, 3)},
    **{f"global_avg_pool{n}d": _global("mean") for n in (1, 2, 3)},
    **{f"global_max_pool{n}d": _global("max") for n in (1, 2, 3)},
    "upsample_nearest_exact": _resized("nearest"),
    "upsample_linear_size": _resized("bilinear"),
}
