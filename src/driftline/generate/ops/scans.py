"""Cumulative sums, products and extremes along one axis."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from driftline.generate.operator import FLOATS, INTEGERS, NUMBERS, Use
from driftline.generate.ops.rules import any_axis, choosing, normal_axis, not_empty, row, same

if TYPE_CHECKING:
    from driftline.generate.emit_onnx import OnnxWriter

_scan = partial(row, infer=same, drawn=choosing(axis=any_axis), rank=(1, 5))
_SUMS = (*FLOATS, "int64", "int32")


def _front(use: Use) -> int:
    """Return the axis counted from the front, as lax needs it."""
    axis, rank = use["axis"], use.types[0].rank
    return int(axis + rank if axis < 0 else axis)


def _window(w: OnnxWriter, u: Use) -> str:
    axis = w.scalar(u["axis"], "int64")
    return str(w.node("CumSum", u.inputs[0], axis, exclusive=int(u["exclusive"]), reverse=int(u["reverse"])))


def _torch_window(use: Use) -> str:
    """Write a cumulative sum. Exclusive: a zero comes first and the last element is left out. Reverse: from the end."""
    x, axis = use.inputs[0], use["axis"]
    text = f"{x}.flip({axis})" if use["reverse"] else x
    if use["exclusive"]:
        size = use.types[0].shape[axis]
        kept = f"{text}.narrow({axis}, 0, {size - 1})"
        text = f"torch.cat([torch.zeros_like({x}.narrow({axis}, 0, 1)), {kept}], {axis})"
    text = f"torch.cumsum({text}, {axis}, dtype={x}.dtype)"
    return f"{text}.flip({axis})" if use["reverse"] else text


def _jnp_window(use: Use) -> str:
    x, axis = use.inputs[0], use["axis"]
    text = f"jnp.flip({x}, {axis})" if use["reverse"] else x
    if use["exclusive"]:
        size = use.types[0].shape[axis]
        zero = f"jnp.zeros_like(lax.slice_in_dim({x}, 0, 1, axis={_front(use)}))"
        text = f"jnp.concatenate([{zero}, lax.slice_in_dim({text}, 0, {size - 1}, axis={_front(use)})], {axis})"
    text = f"jnp.cumsum({text}, {axis}, dtype={x}.dtype)"
    return f"jnp.flip({text}, {axis})" if use["reverse"] else text


OPERATORS = [
    _scan("cumsum", torch="torch.cumsum({0}, {axis}, dtype={0}.dtype)",
          onnx=lambda w, u: w.node("CumSum", u.inputs[0], w.scalar(u["axis"], "int64")),
          jnp="jnp.cumsum({0}, {axis}, dtype={0}.dtype)", dtypes=NUMBERS, onnx_dtypes=_SUMS),
    row("cumsum_window", same,
        choosing(axis=any_axis, exclusive=lambda draw, first: draw.chance(0.6),
                 reverse=lambda draw, first: draw.chance(0.6)),
        _torch_window, _window, _jnp_window, _SUMS, rank=(1, 5), fits=not_empty),
    _scan("cumprod", torch="torch.cumprod({0}, {axis}, dtype={0}.dtype)",
          jnp="jnp.cumprod({0}, {axis}, dtype={0}.dtype)", dtypes=NUMBERS),
    _scan("cummax", torch="torch.cummax({0}, {axis}).values", jnp=lambda u: f"lax.cummax({u.inputs[0]}, {_front(u)})",
          dtypes=NUMBERS, fits=not_empty),
    _scan("cummin", torch="torch.cummin({0}, {axis}).values", jnp=lambda u: f"lax.cummin({u.inputs[0]}, {_front(u)})",
          dtypes=NUMBERS, fits=not_empty),
    _scan("logcumsumexp", torch="torch.logcumsumexp({0}, {axis})",
          jnp=lambda u: f"lax.cumlogsumexp({u.inputs[0]}, {_front(u)})", fits=not_empty, edges=(88.0, -88.0)),
    row("diff", lambda types, attributes: (types[0].with_shape(
            size - (at == normal_axis(attributes["axis"], types[0].rank)) for at, size in enumerate(types[0].shape)),),
        choosing(axis=any_axis), "torch.diff({0}, dim={axis})", None, "jnp.diff({0}, axis={axis})",
        (*FLOATS, *INTEGERS), rank=(1, 5), fits=not_empty),
]  # fmt: skip
