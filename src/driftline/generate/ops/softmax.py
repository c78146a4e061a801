"""Softmax and related operators, along any axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import Draw, Invalid, Use
from driftline.generate.ops.rules import Drawn, any_axis, choosing, normal_axis, not_empty, row, same

if TYPE_CHECKING:
    from driftline.generate.emit_onnx import OnnxWriter

_AXIS = choosing(axis=any_axis)
_MORE: dict[str, Any] = {"rank": (1, 5), "fits": not_empty, "edges": (88.0, -88.0)}


def _even(draw: Draw, first: TensorType) -> Drawn:
    return (), {"axis": draw.choice([axis for axis, size in enumerate(first.shape) if size % 2 == 0])}


def _halved(types: Sequence[TensorType], attributes: Mapping[str, Any]) -> Sequence[TensorType]:
    (x,) = types
    axis = normal_axis(attributes["axis"], x.rank)
    if x.shape[axis] % 2:
        raise Invalid("the axis has no halves")
    return (x.with_shape((*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :])),)


def _glu(w: OnnxWriter, u: Use) -> str:
    left, right = w.node("Split", u.inputs[0], outputs=2, axis=u["axis"], num_outputs=2)
    return str(w.node("Mul", left, w.node("Sigmoid", right)))


OPERATORS = [
    row("softmax", same, _AXIS, "F.softmax({0}, dim={axis})",
        lambda w, u: w.node("Softmax", *u.inputs, axis=u["axis"]), "jax.nn.softmax({0}, axis={axis})", **_MORE),
    row("log_softmax", same, _AXIS, "F.log_softmax({0}, dim={axis})",
        lambda w, u: w.node("LogSoftmax", *u.inputs, axis=u["axis"]), "jax.nn.log_softmax({0}, axis={axis})", **_MORE),
    row("softmin", same, _AXIS, "F.softmin({0}, dim={axis})",
        lambda w, u: w.node("Softmax", w.node("Neg", u.inputs[0]), axis=u["axis"]),
        "jax.nn.softmax(-{0}, axis={axis})", **_MORE),
    row("glu", _halved, _even, "F.glu({0}, dim={axis})", _glu, "jax.nn.glu({0}, axis={axis})", rank=(1, 5),
        fits=lambda first: first.size > 0 and any(size % 2 == 0 for size in first.shape)),
]  # fmt: skip
