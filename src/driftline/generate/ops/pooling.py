"""Pooling: the maximum, mean or norm of the values in a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import FLOATS, Attributes, Draw, Form, Invalid, Operator, Types, Use
from driftline.generate.ops.rules import Drawn, choosing, not_empty, nothing

ONNX_FLOATS = ("float32", "float64", "float16")


def _count(size: int, kernel: int, stride: int, pad: int, dilation: int, ceil: bool) -> tuple[int, int]:
    """Return the number of windows, and how far the last window reaches beyond the padding."""
    room = size + 2 * pad - dilation * (kernel - 1) - 1
    if room < 0 or kernel > size or 2 * pad > kernel:
        raise Invalid("the window is larger than the image, or the padding than half the window")
    count = room // stride + 1
    if ceil and room % stride:
        if count * stride >= size + pad:
            raise Invalid("standards differ about a last window that starts behind the image")
        count += 1
    for start in range(-pad, count * stride - pad, stride):
        if not any(0 <= start + at * dilation < size for at in range(kernel)):
            raise Invalid("a window lies in the padding alone")
    return count, max(0, (count - 1) * stride - room)


def _windows(image: Sequence[int], attributes: Attributes) -> list[tuple[int, int]]:
    kernel, strides, pads, dilations = (attributes[name] for name in ("kernel", "strides", "pads", "dilations"))
    windows = zip(image, kernel, strides, pads, dilations, strict=True)
    return [_count(size, k, stride, pad, d, attributes["ceil"]) for size, k, stride, pad, d in windows]


def _pool(types: Types, attributes: Attributes) -> Types:
    return (types[0].with_shape((*types[0].shape[:2], *(n for n, _ in _windows(types[0].shape[2:], attributes)))),)


def _astray(first: TensorType, attributes: Attributes) -> bool:
    """True if the reference evaluator of MaxPool would read outside the image: with padding, no strides and no
    dilation, unless the image has two dimensions with equal padding."""
    plain = max(attributes["strides"]) == 1 and max(attributes["dilations"]) == 1
    pads = set(attributes["pads"])
    return plain and pads != {0} and (first.rank != 4 or len(pads) > 1)


def _max_pool(types: Types, attributes: Attributes) -> Types:
    if _astray(types[0], attributes):
        raise Invalid("the reference evaluator does not know this padding")
    return _pool(types, attributes)


def _draw_pool(dilate: bool = False, pad: bool = True, ceil: bool = True) -> Any:
    def drawn(draw: Draw, first: TensorType) -> Drawn:
        made: dict[str, Any] = {"kernel": [], "strides": [], "pads": [], "dilations": []}
        for size in first.shape[2:]:
            kernel = draw.integer(1, min(size, 4))
            pads = draw.integer(0, kernel // 2) if pad else 0
            fit = [d for d in (1, 1, 2, 3) if d * (kernel - 1) < size + 2 * pads] if dilate else [1]
            stride, dilation = draw.integer(1, 3), draw.choice(fit)
            if not _sees_all(size, kernel, stride, pads, dilation):
                dilation = 1
            for name, value in zip(made, (kernel, stride, pads, dilation), strict=True):
                made[name].append(value)
        if _astray(first, made):
            made["pads"] = [0] * len(made["pads"])
        made["ceil"] = ceil and draw.chance(0.4) and _ceil_is_clear(first, made)
        return (), made

    return drawn


def _sees_all(size: int, kernel: int, stride: int, pad: int, dilation: int) -> bool:
    """True if every window contains an element: languages differ about the maximum of an empty window."""
    try:
        _count(size, kernel, stride, pad, dilation, ceil=True)
    except Invalid:
        return False
    return True


def _ceil_is_clear(first: TensorType, attributes: Attributes) -> bool:
    """True if rounding up means the same in all languages: opset 18 does not say that the last window must start
    inside, and the reference evaluator puts half of the missing rows in front if there is more than one."""
    for size, kernel, stride, pad, dilation in zip(
        first.shape[2:], *(attributes[name] for name in ("kernel", "strides", "pads", "dilations")), strict=True
    ):
        room = size + 2 * pad - dilation * (kernel - 1) - 1
        whole = -(-room // stride) + 1
        if (whole - 1) * stride >= size + pad or (whole - 1) * stride - room > 1:
            return False
    return True


def _drawn_with(drawn: Any, **options: Any) -> Any:
    def more(draw: Draw, first: TensorType) -> Drawn:
        needs, attributes = drawn(draw, first)
        return needs, {**attributes, **{name: chosen(draw, first) for name, chosen in options.items()}}

    return more


def _arguments(u: Use) -> str:
    return f"{u.inputs[0]}, {u['kernel']}, {u['strides']}, {u['pads']}"


def _torch_max(u: Use) -> str:
    return f"F.max_pool{u.types[0].rank - 2}d({_arguments(u)}, {u['dilations']}, ceil_mode={u['ceil']})"


def _torch_max_indices(u: Use) -> str:
    more = f"{u['dilations']}, ceil_mode={u['ceil']}, return_indices=True"
    return f"F.max_pool{u.types[0].rank - 2}d({_arguments(u)}, {more})"


def _torch_mean(u: Use) -> str:
    more = f"ceil_mode={u['ceil']}, count_include_pad={u['count_pad']}"
    return f"F.avg_pool{u.types[0].rank - 2}d({_arguments(u)}, {more})"


def _onnx_window(u: Use) -> dict[str, Any]:
    window = {"kernel_shape": u["kernel"], "strides": u["strides"], "pads": u["pads"] + u["pads"]}
    # Without strides nothing is rounded, but the reference evaluator stumbles
    return {**window, "ceil_mode": int(u["ceil"] and max(u["strides"]) > 1)}


def _onnx_max(w: Any, u: Use) -> Any:
    return w.node("MaxPool", *u.inputs, dilations=u["dilations"], **_onnx_window(u))


def _onnx_mean(w: Any, u: Use) -> Any:
    # Without padding both ways of counting mean the same; then the one in which the reference evaluator keeps NaN
    count = u["count_pad"] or not any(u["pads"])
    return w.node("AveragePool", *u.inputs, count_include_pad=int(count), **_onnx_window(u))


def _window(value: str, u: Use, rank: int, start: str, function: str, pads: Sequence[tuple[int, int]]) -> str:
    one = [1] * (rank - len(u["kernel"]))
    none = [(0, 0)] * (rank - len(u["kernel"]))
    return (
        f"lax.reduce_window({value}, jnp.asarray({start}, {u.inputs[0]}.dtype), {function}, "
        f"{tuple(one + u['kernel'])}, {tuple(one + u['strides'])}, {[*none, *pads]}, "
        f"window_dilation={tuple(one + u['dilations'])})"
    )


def _jnp_pads(u: Use) -> list[tuple[int, int]]:
    beyond = [extra for _, extra in _windows(u.types[0].shape[2:], u.attributes)]
    return [(pad, pad + extra) for pad, extra in zip(u["pads"], beyond, strict=True)]


def _jnp_max(u: Use) -> str:
    return _window(u.inputs[0], u, u.types[0].rank, "-jnp.inf", "lax.max", _jnp_pads(u))


def _jnp_mean(u: Use) -> str:
    """Write the mean as the sum divided by the number of counted values."""
    pads = _jnp_pads(u)
    total = _window(u.inputs[0], u, u.types[0].rank, "0", "lax.add", pads)
    counted = int(u["count_pad"])
    ones = f"jnp.ones({u.types[0].shape[2:]}, {u.inputs[0]}.dtype)"
    image = f"jnp.pad({ones}, {[(pad, pad) for pad in u['pads']]}, constant_values={counted})"
    beyond = [(0, after - pad) for pad, (_, after) in zip(u["pads"], pads, strict=True)]
    return f"{total} / {_window(image, u, len(pads), '0', 'lax.add', beyond)}"


def _whole(types: Types, attributes: Attributes) -> Types:
    return (types[0].with_shape((*types[0].shape[:2], *[1] * (types[0].rank - 2))),)


def _adaptive(types: Types, attributes: Attributes) -> Types:
    return (types[0].with_shape((*types[0].shape[:2], *attributes["sizes"])),)


def _sizes(draw: Draw, first: TensorType) -> list[int]:
    return [draw.integer(1, 7) for _ in first.shape[2:]]


def _torch_whole(kind: str) -> Any:
    return lambda u: f"F.adaptive_{kind}_pool{u.types[0].rank - 2}d({u.inputs[0]}, 1)"


def _torch_adaptive(kind: str) -> Any:
    return lambda u: f"F.adaptive_{kind}_pool{u.types[0].rank - 2}d({u.inputs[0]}, {u['sizes']})"


def _jnp_whole(function: str) -> Any:
    return lambda u: f"jnp.{function}({u.inputs[0]}, axis={tuple(range(2, u.types[0].rank))}, keepdims=True)"


def _torch_norm(u: Use) -> str:
    arguments = f"{float(u['norm'])}, {u['kernel']}, {u['strides']}"
    if u.types[0].rank == 3:  # torch takes numbers, not lists, in one dimension
        arguments = f"{float(u['norm'])}, {u['kernel'][0]}, {u['strides'][0]}"
    return f"F.lp_pool{u.types[0].rank - 2}d({u.inputs[0]}, {arguments}, ceil_mode={u['ceil']})"


def _onnx_norm(w: Any, u: Use) -> Any:
    return w.node("LpPool", *u.inputs, p=u["norm"], kernel_shape=u["kernel"], strides=u["strides"])


def _with_places(types: Types, attributes: Attributes) -> Types:
    (made,) = _pool(types, attributes)
    return made, made.with_dtype("int64")


def _onnx_whole_max(w: Any, u: Use) -> Any:
    # The reference evaluator of GlobalMaxPool takes every input for two-dimensional
    image = u.types[0].shape[2:]
    return w.node("GlobalMaxPool", *u.inputs) if len(image) == 2 else w.node("MaxPool", *u.inputs, kernel_shape=image)


def _row(name: str, n: int, infer: Any, draw: Any, torch: Any, onnx: Any = None, jnp: Any = None) -> Operator:
    words, other = Form(onnx, ONNX_FLOATS) if onnx else None, Form(jnp, FLOATS) if jnp else None
    dtypes = ("float32", "float64") if name == "avg_pool3d" else FLOATS  # torch has no kernel for its halves
    return Operator(name, infer, draw, Form(torch, dtypes), words, other, rank=(n + 2, n + 2), fits=not_empty)


_MAX = _draw_pool(dilate=True)
_MEAN = _drawn_with(_draw_pool(), count_pad=lambda draw, first: draw.chance(0.5))
_SQUARES = _drawn_with(_draw_pool(pad=False, ceil=False), norm=lambda draw, first: 2)
_CUBES = _drawn_with(_draw_pool(pad=False), norm=lambda draw, first: draw.choice((1, 3)))

OPERATORS = [
    *(_row(f"max_pool{n}d", n, _max_pool, _MAX, _torch_max, _onnx_max, _jnp_max) for n in (1, 2, 3)),
    *(_row(f"max_pool{n}d_indices", n, _with_places, _MAX, _torch_max_indices) for n in (1, 2)),
    *(_row(f"avg_pool{n}d", n, _pool, _MEAN, _torch_mean, _onnx_mean, _jnp_mean) for n in (1, 2, 3)),
    *(
        _row(f"global_avg_pool{n}d", n, _whole, nothing, _torch_whole("avg"), "GlobalAveragePool", _jnp_whole("mean"))
        for n in (1, 2, 3)
    ),
    *(
        _row(f"global_max_pool{n}d", n, _whole, nothing, _torch_whole("max"), _onnx_whole_max, _jnp_whole("max"))
        for n in (1, 2, 3)
    ),
    *(
        _row(f"adaptive_{kind}_pool{n}d", n, _adaptive, choosing(sizes=_sizes), _torch_adaptive(kind))
        for kind in ("avg", "max")
        for n in (1, 2, 3)
    ),
    # Of squares only: torch keeps signs where ONNX takes absolute values
    *(_row(f"lp_pool{n}d", n, _pool, _SQUARES, _torch_norm, _onnx_norm) for n in (1, 2)),
    _row("lp_pool2d_odd", 2, _pool, _CUBES, _torch_norm),
]  # fmt: skip
