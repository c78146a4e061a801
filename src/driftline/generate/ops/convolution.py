"""Convolutions in one, two and three dimensions, plain and transposed.

The input is (batch, channels, *image) in all languages; the weights are parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import FLOATS, Attributes, Draw, Form, Invalid, Need, Operator, Types, Use
from driftline.generate.ops.padding import onnx_pads, torch_pads
from driftline.generate.ops.rules import Drawn, divisor, not_empty

ONNX_FLOATS = ("float32", "float64", "float16")


def _groups(draw: Draw, channels: int, depthwise: bool) -> int:
    if depthwise:
        return channels
    return 1 if draw.chance(0.6) else divisor(draw, channels)


def _weights(draw: Draw, first: TensorType, shape: Sequence[int], outputs: int) -> list[Need]:
    needs = [Need(first.with_shape(shape), prefer="parameter")]
    if draw.chance(0.6):
        needs.append(Need(first.with_shape((outputs,)), prefer="parameter"))
    return needs


def _draw_conv(padding: str = "numbers", depthwise: bool = False) -> Any:
    def drawn(draw: Draw, first: TensorType) -> Drawn:
        channels, image = first.shape[1], first.shape[2:]
        groups = _groups(draw, channels, depthwise)
        each = draw.integer(1, 3 if channels < 8 or groups == 1 else 1)
        kernel, pads, dilations, strides = [], [], [], []
        for size in image:
            pads.append(draw.choice((0, 0, 1, 2)) if padding == "numbers" else 0)
            room = size + 2 * pads[-1]
            # Torch gives the same size only to a window that does not stride
            wide = padding == "same"
            kernel.append(draw.integer(1, 4 if wide else min(room, 4)))
            # A dilated kernel of one point means nothing, and some in float16 end the process (torch 2.13, oneDNN)
            fit = [d for d in (1, 1, 2, 3) if wide or d * (kernel[-1] - 1) < room]
            dilations.append(draw.choice(fit) if kernel[-1] > 1 else 1)
            strides.append(1 if wide else draw.choice((1, 1, 2, 3)))
        needs = _weights(draw, first, (groups * each, channels // groups, *kernel), groups * each)
        made = {"kernel": kernel, "strides": strides, "dilations": dilations, "groups": groups}
        return needs, {**made, "pads": pads if padding == "numbers" else padding}

    return drawn


def _check_weights(types: Types, attributes: Attributes, weight: tuple[int, ...], outputs: int) -> None:
    if len({t.dtype for t in types}) > 1 or types[1].shape != weight or outputs % attributes["groups"]:
        raise Invalid("the weight does not fit")
    if len(types) > 2 and types[2].shape != (outputs,):
        raise Invalid("the bias does not fit")


def _conv(types: Types, attributes: Attributes) -> Types:
    (batch, channels, *image), groups = types[0].shape, attributes["groups"]
    outputs = types[1].shape[0] if types[1].shape else 0
    if channels % groups:
        raise Invalid("the channels do not make up groups")
    _check_weights(types, attributes, (outputs, channels // groups, *attributes["kernel"]), outputs)
    pads = attributes["pads"]
    shape = []
    for axis, size in enumerate(image):
        reach = attributes["dilations"][axis] * (attributes["kernel"][axis] - 1)
        room = size + (reach if pads == "same" else 0 if pads == "valid" else 2 * pads[axis]) - reach
        if room < 1:
            raise Invalid("the window is larger than the image")
        shape.append((room - 1) // attributes["strides"][axis] + 1)
    return (types[0].with_shape((batch, outputs, *shape)),)


def _bias(u: Use) -> str:
    return u.inputs[2] if len(u.inputs) > 2 else "None"


def _torch_conv(u: Use) -> str:
    return (
        f"F.conv{u.types[0].rank - 2}d({u.inputs[0]}, {u.inputs[1]}, {_bias(u)}, stride={u['strides']}, "
        f"padding={u['pads']!r}, dilation={u['dilations']}, groups={u['groups']})"
    )


def _onnx_conv(w: Any, u: Use, first: str = "") -> Any:
    pads = u["pads"]
    where: dict[str, Any] = {"auto_pad": "VALID"} if pads == "valid" else {"pads": [*pads, *pads]}
    if pads == "same":
        # ONNX Runtime refuses a dilated window with automatic padding; the odd one goes behind
        total = [d * (k - 1) for d, k in zip(u["dilations"], u["kernel"], strict=True)]
        numbers = [n // 2 for n in total] + [n - n // 2 for n in total]
        where = {"pads": numbers} if max(u["dilations"]) > 1 else {"auto_pad": "SAME_UPPER"}
    return w.node(
        "Conv", first or u.inputs[0], *u.inputs[1:], kernel_shape=u["kernel"], strides=u["strides"],
        dilations=u["dilations"], group=u["groups"], **where,
    )  # fmt: skip


def _with_bias(text: str, u: Use) -> str:
    return f"{text} + {u.inputs[2]}.reshape({[1, -1] + [1] * (u.types[0].rank - 2)})" if len(u.inputs) > 2 else text


def _jnp_conv(u: Use, first: str = "") -> str:
    pads = u["pads"].upper() if isinstance(u["pads"], str) else [(p, p) for p in u["pads"]]
    return _with_bias(
        f"lax.conv_general_dilated({first or u.inputs[0]}, {u.inputs[1]}, {u['strides']}, {pads!r}, "
        f"rhs_dilation={u['dilations']}, feature_group_count={u['groups']})",
        u,
    )


_AROUND = {"reflect": ("reflect", "reflect"), "replicate": ("edge", "edge"), "circular": ("", "wrap")}


def _draw_around(*modes: str) -> Any:
    """Return a rule that first pads the image with itself, and then chooses the window for the larger image."""
    plain = _draw_conv("zero")

    def drawn(draw: Draw, first: TensorType) -> Drawn:
        mode = draw.choice(modes)
        around = [[draw.integer(0, min(2, size - (mode == "reflect"))) for _ in "ab"] for size in first.shape[2:]]
        larger = (size + sum(pair) for size, pair in zip(first.shape[2:], around, strict=True))
        needs, attributes = plain(draw, first.with_shape((*first.shape[:2], *larger)))
        return needs, {**attributes, "pads": [0] * len(around), "mode": mode, "around": around}

    return drawn


def _conv_around(types: Types, attributes: Attributes) -> Types:
    image = types[0].shape[2:]
    for size, pair in zip(image, attributes["around"], strict=True):
        if max(pair) > size - (attributes["mode"] == "reflect"):
            raise Invalid("the image is smaller than its padding")
    larger = (size + sum(pair) for size, pair in zip(image, attributes["around"], strict=True))
    return _conv([types[0].with_shape((*types[0].shape[:2], *larger)), *types[1:]], attributes)


def _torch_around(u: Use) -> str:
    around = f"F.pad({u.inputs[0]}, {torch_pads(u['around'])}, mode={u['mode']!r})"
    return _torch_conv(Use([around, *u.inputs[1:]], u.types, u.outputs, u.attributes))


def _onnx_around(w: Any, u: Use) -> Any:
    pads = onnx_pads(w, [[0, 0], [0, 0], *u["around"]])
    return _onnx_conv(w, u, w.node("Pad", u.inputs[0], pads, mode=_AROUND[u["mode"]][0]))


def _jnp_around(u: Use) -> str:
    return _jnp_conv(u, f"jnp.pad({u.inputs[0]}, {[[0, 0], [0, 0], *u['around']]}, mode={_AROUND[u['mode']][1]!r})")


def _draw_transposed(grouping: str) -> Any:
    def drawn(draw: Draw, first: TensorType) -> Drawn:
        channels, image = first.shape[1], first.shape[2:]
        groups = {"one": 1, "depthwise": channels, "any": divisor(draw, channels)}[grouping]
        each = 1 if grouping == "depthwise" else draw.integer(1, 3)
        kernel = [draw.integer(1, 3) for _ in image]
        strides = [draw.choice((1, 1, 2, 3)) for _ in image]
        dilations = [draw.choice((1, 1, 2)) if points > 1 else 1 for points in kernel]
        extra = [draw.integer(0, stride - 1) for stride in strides]
        pads = []
        for axis, size in enumerate(image):
            whole = (size - 1) * strides[axis] + dilations[axis] * (kernel[axis] - 1) + extra[axis] + 1
            pads.append(draw.integer(0, min(2, (whole - 1) // 2)))
        needs = _weights(draw, first, (channels, each, *kernel), groups * each)
        if grouping == "depthwise":
            needs = needs[:1]
        made = {"kernel": kernel, "strides": strides, "dilations": dilations, "groups": groups}
        return needs, {**made, "pads": pads, "extra": extra}

    return drawn


def _transposed(types: Types, attributes: Attributes) -> Types:
    (batch, channels, *image), groups = types[0].shape, attributes["groups"]
    outputs = types[1].shape[1] * groups
    _check_weights(types, attributes, (channels, outputs // groups, *attributes["kernel"]), outputs)
    if channels % groups:
        raise Invalid("the channels do not make up groups")
    shape = []
    for axis, size in enumerate(image):
        stride, dilation, extra = (attributes[name][axis] for name in ("strides", "dilations", "extra"))
        # Torch takes more with a dilation, but not the reference evaluator
        if extra >= stride:
            raise Invalid("the output padding must be below the stride")
        reach = dilation * (attributes["kernel"][axis] - 1)
        shape.append((size - 1) * stride - 2 * attributes["pads"][axis] + reach + extra + 1)
    if min(shape) < 1:
        raise Invalid("nothing is left of the image")
    return (types[0].with_shape((batch, outputs, *shape)),)


def _torch_transposed(u: Use) -> str:
    return (
        f"F.conv_transpose{u.types[0].rank - 2}d({u.inputs[0]}, {u.inputs[1]}, {_bias(u)}, stride={u['strides']}, "
        f"padding={u['pads']}, output_padding={u['extra']}, groups={u['groups']}, dilation={u['dilations']})"
    )


def _onnx_transposed(w: Any, u: Use) -> Any:
    return w.node(
        "ConvTranspose", *u.inputs, kernel_shape=u["kernel"], strides=u["strides"], dilations=u["dilations"],
        group=u["groups"], pads=u["pads"] + u["pads"], output_padding=u["extra"],
    )  # fmt: skip


def _jnp_transposed(u: Use) -> str:
    """Write a transposed convolution in JAX, as a convolution of the dilated image with mirrored weights whose channels
    are swapped."""
    groups, (channels, each, *kernel) = u["groups"], u.types[1].shape
    cut = [groups, channels // groups, each, *kernel]
    axes = list(range(2, len(kernel) + 2))
    weight = f"jnp.swapaxes({u.inputs[1]}.reshape({cut}), 1, 2).reshape({[groups * each, channels // groups, *kernel]})"
    reach = [d * (k - 1) for d, k in zip(u["dilations"], kernel, strict=True)]
    pads = [(r - p, r - p + e) for r, p, e in zip(reach, u["pads"], u["extra"], strict=True)]
    return _with_bias(
        f"lax.conv_general_dilated({u.inputs[0]}, jnp.flip({weight}, {axes}), {[1] * len(kernel)}, {pads}, "
        f"lhs_dilation={u['strides']}, rhs_dilation={u['dilations']}, feature_group_count={groups})",
        u,
    )


_PLAIN = (_torch_conv, _onnx_conv, _jnp_conv)
_AROUND_FORMS = (_torch_around, _onnx_around, _jnp_around)
_TRANSPOSED = (_torch_transposed, _onnx_transposed, _jnp_transposed)


def _row(name: str, dimensions: int, infer: Any, draw: Any, torch: Any, onnx: Any, jnp: Any) -> Operator:
    rank = (dimensions + 2, dimensions + 2)
    words = Form(onnx, ONNX_FLOATS) if onnx else None
    return Operator(name, infer, draw, Form(torch, FLOATS), words, Form(jnp, FLOATS), rank=rank, fits=not_empty)


OPERATORS = [
    *(_row(f"conv{n}d", n, _conv, _draw_conv(), *_PLAIN) for n in (1, 2, 3)),
    *(_row(f"conv{n}d_depthwise", n, _conv, _draw_conv(depthwise=True), *_PLAIN) for n in (1, 2)),
    *(_row(f"conv{n}d_{mode}", n, _conv, _draw_conv(mode), *_PLAIN) for n in (1, 2) for mode in ("same", "valid")),
    *(
        _row(f"conv{n}d_padded", n, _conv_around, _draw_around("reflect", "replicate"), *_AROUND_FORMS)
        for n in (1, 2)
    ),
    _row("conv2d_circular", 2, _conv_around, _draw_around("circular"), _torch_around, None, _jnp_around),
    *(_row(f"conv_transpose{n}d", n, _transposed, _draw_transposed("one"), *_TRANSPOSED) for n in (1, 2, 3)),
    # The reference evaluator mixes up the groups of ConvTranspose unless each is one channel without a bias
    _row("conv_transpose2d_depthwise", 2, _transposed, _draw_transposed("depthwise"), *_TRANSPOSED),
    _row("conv_transpose2d_grouped", 2, _transposed, _draw_transposed("any"), _torch_transposed, None, _jnp_transposed),
]  # fmt: skip
