"""TensorFlow forms of operators that move values: reshapes, permutations, slices, padding, concatenation."""

from __future__ import annotations

from collections.abc import Mapping

from driftline.generate.operator import Text, Use
from driftline.generate.ops.rules import swapped
from driftline.generate.ops.shapes import moved
from driftline.generate.ops.slicing import bracket, unpacked
from driftline.generate.tf_forms.words import channels_first, channels_last


def _reshaped(u: Use) -> str:
    return f"tf.reshape({u.inputs[0]}, {list(u.outputs[0].shape)})"


def _squeeze(u: Use) -> str:
    # No axes would be all axes
    return f"tf.squeeze({u.inputs[0]}, {list(u['axes'])})" if u["axes"] else f"tf.identity({u.inputs[0]})"


def _transpose(u: Use) -> str:
    return f"tf.transpose({u.inputs[0]}, {swapped(u.types[0].rank, u['one'], u['other'])})"


def _movedim(u: Use) -> str:
    return f"tf.transpose({u.inputs[0]}, {moved(u.types[0].rank, u['source'], u['target'])})"


def _expand(u: Use) -> str:
    return f"tf.broadcast_to({u.inputs[0]}, {list(u.outputs[0].shape)})"


def _rot90(u: Use) -> str:
    x, (one, other), turn = u.inputs[0], u["axes"], u["times"] % 4
    if turn == 0:
        return f"tf.identity({x})"
    if turn == 2:
        return f"tf.reverse({x}, {[one, other]})"
    turned = f"tf.reverse({x}, {[other if turn == 1 else one]})"
    return f"tf.transpose({turned}, {swapped(u.types[0].rank, one, other)})"


def _listed(name: str) -> Text:
    return lambda u: f"tf.{name}([{', '.join(u.inputs)}], {u['axis']})"


def _blocks(name: str) -> Text:
    """Return a form that moves channels last and back. TensorFlow orders channels within a block as ONNX does."""
    return lambda u: channels_first(f"tf.nn.{name}({channels_last(u.inputs[0], 4)}, {u['block']})", 4)


def _pixel_shuffle(u: Use) -> str:
    (n, c, h, w), b = u.types[0].shape, u["block"]
    cut = f"tf.reshape({u.inputs[0]}, {[n, c // b**2, b, b, h, w]})"
    return f"tf.reshape(tf.transpose({cut}, [0, 1, 4, 2, 5, 3]), {list(u.outputs[0].shape)})"


def _pixel_unshuffle(u: Use) -> str:
    (n, c, h, w), b = u.types[0].shape, u["block"]
    cut = f"tf.reshape({u.inputs[0]}, {[n, c, h // b, b, w // b, b]})"
    return f"tf.reshape(tf.transpose({cut}, [0, 1, 3, 5, 2, 4]), {list(u.outputs[0].shape)})"


def _channel_shuffle(u: Use) -> str:
    (n, c, h, w), groups = u.types[0].shape, u["groups"]
    cut = f"tf.reshape({u.inputs[0]}, {[n, groups, c // groups, h, w]})"
    return f"tf.reshape(tf.transpose({cut}, [0, 2, 1, 3, 4]), {[n, c, h, w]})"


def _pads(u: Use) -> list[list[int]]:
    """Return pads for all axes; those of the operator are for the last axes."""
    given = [list(pair) for pair in u["pads"]]
    return [[0, 0]] * (u.types[0].rank - len(given)) + given


def _pad_constant(u: Use) -> str:
    return f"tf.pad({u.inputs[0]}, {_pads(u)}, constant_values={u['value']})"


def _pad_reflect(u: Use) -> str:
    return f'tf.pad({u.inputs[0]}, {_pads(u)}, mode="REFLECT")'


def _narrow(u: Use) -> str:
    axis = u["axis"] % u.types[0].rank
    begin = [u["start"] if at == axis else 0 for at in range(u.types[0].rank)]
    return f"tf.slice({u.inputs[0]}, {begin}, {list(u.outputs[0].shape)})"


def _select(u: Use) -> str:
    return f"{u.inputs[0]}[{':, ' * (u['axis'] % u.types[0].rank)}{u['index']}]"


def _split(u: Use) -> str:
    return unpacked(f"tf.split({u.inputs[0]}, {list(u['sizes'])}, {u['axis']})", u)


def _unbind(u: Use) -> str:
    return unpacked(f"tf.unstack({u.inputs[0]}, axis={u['axis']})", u)


def _reshaped_back(u: Use) -> str:
    return f"tf.reshape(tf.reshape({u.inputs[0]}, [-1]), {list(u.types[0].shape)})"


def _cast_wide_and_back(u: Use) -> str:
    return f"tf.cast(tf.cast({u.inputs[0]}, tf.float32), tf.{u.types[0].dtype})"


TEXTS: Mapping[str, Text] = {
    "reshape": "tf.reshape({0}, {shape})",
    "view": "tf.reshape({0}, {shape})",
    "flatten": _reshaped,
    "flatten_2d": _reshaped,
    "unflatten": _reshaped,
    "squeeze": _squeeze,
    "squeeze_all": "tf.squeeze({0})",
    "unsqueeze": "tf.expand_dims({0}, {axis})",
    "permute": "tf.transpose({0}, {axes})",
    "transpose": _transpose,
    "matrix_t": "tf.transpose({0})",
    "matrix_mt": "tf.linalg.matrix_transpose({0})",
    "movedim": _movedim,
    "expand": _expand,
    "broadcast_to": _expand,
    "tile": "tf.tile({0}, {repeats})",
    "repeat_interleave": "tf.repeat({0}, {repeats}, axis={axis})",
    "flip": "tf.reverse({0}, {axes})",
    "roll": "tf.roll({0}, {shift}, {axis})",
    "rot90": _rot90,
    "concat": _listed("concat"),
    "stack": _listed("stack"),
    "meshgrid": "tf.meshgrid({0}, {1}, indexing='ij')",
    "pixel_shuffle": _pixel_shuffle,
    "depth_to_space": _blocks("depth_to_space"),
    "pixel_unshuffle": _pixel_unshuffle,
    "space_to_depth": _blocks("space_to_depth"),
    "channel_shuffle": _channel_shuffle,
    "pad_constant": _pad_constant,
    "pad_reflect": _pad_reflect,
    "slice": bracket,
    "slice_backwards": bracket,
    "narrow": _narrow,
    "select": _select,
    "split": _split,
    "chunk": _split,
    "unbind": _unbind,
    "detach": "tf.stop_gradient({0})",
    "identity": "tf.identity({0})",
    "clone": "tf.identity({0})",
    "contiguous": "tf.identity({0})",
    "dropout_eval": "tf.identity({0})",
    "mul_one": "{0} * 1",
    "add_zero": "{0} + 0",
    "sub_zero": "{0} - 0",
    "div_one": "{0} / 1",
    "negated_twice": "-(-{0})",
    "transposed_twice": "tf.linalg.matrix_transpose(tf.linalg.matrix_transpose({0}))",
    "reshaped_back": _reshaped_back,
    "cast_to_itself": lambda u: f"tf.cast({u.inputs[0]}, tf.{u.types[0].dtype})",
    "cast_wide_and_back": _cast_wide_and_back,
    "where_true": "tf.where(True, {0}, tf.zeros_like({0}))",
}
