"""Resizing of images.

Languages differ in where a pixel of the result lies in the input; the entries here are the conventions that torch and
ONNX share. A nearest neighbour is ambiguous where such a point falls between two pixels and rounding decides, so the
sizes there are multiples of each other, for which the points are exact.
"""

from __future__ import annotations

from typing import Any

from driftline.generate.graph import TensorType
from driftline.generate.operator import FLOATS, Attributes, Draw, Form, Invalid, Operator, Types, Use
from driftline.generate.ops.rules import Drawn, divisor, not_empty

_NAMES = {3: "linear", 4: "bilinear", 5: "trilinear"}


def _draw_scales(draw: Draw, first: TensorType) -> Drawn:
    larger = (1.0, 2.0, 2.0, 3.0)
    return (), {"scales": [draw.choice((*larger, 0.5) if size > 1 else larger) for size in first.shape[2:]]}


def _scaled(types: Types, attributes: Attributes) -> Types:
    if len(attributes["scales"]) != types[0].rank - 2:
        raise Invalid("a scale for each axis of the image")
    sizes = [int(n * scale) for n, scale in zip(types[0].shape[2:], attributes["scales"], strict=True)]
    if min(sizes) < 1:
        raise Invalid("nothing is left of the image")
    return (types[0].with_shape((*types[0].shape[:2], *sizes)),)


def _draw_multiples(draw: Draw, first: TensorType) -> Drawn:
    return (), {"sizes": [draw.choice((size, 2 * size, 3 * size, divisor(draw, size))) for size in first.shape[2:]]}


def _draw_sizes(draw: Draw, first: TensorType) -> Drawn:
    return (), {"sizes": [draw.integer(1, 9) for _ in first.shape[2:]]}


def _sized(types: Types, attributes: Attributes) -> Types:
    if len(attributes["sizes"]) != types[0].rank - 2 or min(attributes["sizes"]) < 1:
        raise Invalid("a size for each axis of the image")
    return (types[0].with_shape((*types[0].shape[:2], *attributes["sizes"])),)


def _multiples(types: Types, attributes: Attributes) -> Types:
    made = _sized(types, attributes)
    for have, want in zip(types[0].shape[2:], attributes["sizes"], strict=True):
        if have % want and want % have:
            raise Invalid("one size is no multiple of the other")
    return made


def _torch(mode: str, corners: bool | None = None) -> Any:
    def emit(u: Use) -> str:
        how = f"size={u['sizes']}" if "sizes" in u.attributes else f"scale_factor={u['scales']}"
        name = _NAMES[u.types[0].rank] if mode == "linear" else mode
        return f"F.interpolate({u.inputs[0]}, {how}, mode={name!r}, align_corners={corners})"

    return emit


def _onnx(mode: str, places: str, nearest: str = "") -> Any:
    def emit(w: Any, u: Use) -> Any:
        more: dict[str, Any] = {"nearest_mode": nearest} if nearest else {}
        if "sizes" in u.attributes:
            given = [u.inputs[0], "", "", w.ints(u.outputs[0].shape)]
        else:
            import numpy as np

            given = [u.inputs[0], "", w.array(np.array([1.0, 1.0, *u["scales"]], dtype=np.float32))]
        return w.node("Resize", *given, mode=mode, coordinate_transformation_mode=places, **more)

    return emit


def _jnp_nearest(middle: bool) -> Any:
    """Return a form that computes indices with integers: the floor of the start or the middle of each pixel."""

    def emit(u: Use) -> str:
        text = u.inputs[0]
        for axis in range(2, u.types[0].rank):
            have, want = u.types[0].shape[axis], u.outputs[0].shape[axis]
            places = f"(2 * np.arange({want}) + {int(middle)}) * {have} // {2 * want}"
            text = f"jnp.take({text}, {places}, axis={axis})"
        return text

    return emit


def _jnp_linear(u: Use) -> str:
    return f"jax.image.resize({u.inputs[0]}, {u.outputs[0].shape}, 'linear', antialias=False)"


def _row(name: str, infer: Any, draw: Any, torch: Any, onnx: Any, jnp: Any = None) -> Operator:
    other = Form(jnp, FLOATS) if jnp else None
    rank = (4, 4) if "cubic" in name else (3, 5)
    # The reference evaluator has the weights of a cubic in float32 only
    words = Form(onnx, tuple(d for d in FLOATS if d != "float64") if "cubic" in name else FLOATS)
    return Operator(name, infer, draw, Form(torch, FLOATS), words, other, rank=rank, fits=not_empty)


_FLOOR = _onnx("nearest", "asymmetric", "floor")
_MIDDLE = _onnx("nearest", "half_pixel", "round_prefer_ceil")
_HALF, _CORNERS = _onnx("linear", "half_pixel"), _onnx("linear", "align_corners")
_CUBIC, _CUBIC_CORNERS = _onnx("cubic", "half_pixel"), _onnx("cubic", "align_corners")

OPERATORS = [
    _row("upsample_nearest", _scaled, _draw_scales, _torch("nearest"), _FLOOR, _jnp_nearest(False)),
    _row("upsample_nearest_size", _multiples, _draw_multiples, _torch("nearest"), _FLOOR, _jnp_nearest(False)),
    _row("upsample_nearest_exact", _multiples, _draw_multiples, _torch("nearest-exact"), _MIDDLE, _jnp_nearest(True)),
    _row("upsample_linear", _scaled, _draw_scales, _torch("linear", False), _HALF),
    _row("upsample_linear_size", _sized, _draw_sizes, _torch("linear", False), _HALF, _jnp_linear),
    _row("upsample_linear_corners", _sized, _draw_sizes, _torch("linear", True), _CORNERS),
    _row("upsample_bicubic", _sized, _draw_sizes, _torch("bicubic", False), _CUBIC),
    _row("upsample_bicubic_corners", _sized, _draw_sizes, _torch("bicubic", True), _CUBIC_CORNERS),
]  # fmt: skip
