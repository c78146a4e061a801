"""The player's Resize and Upsample: one axis at a time, from neighbouring elements and their weights."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from driftline.programs.onnx.player.call import NodeCall, Unplayable, integers, onnx_op


@onnx_op("Resize")
def resize(
    call: NodeCall, x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None
) -> Tensor:
    if call.opset < 11:
        scales, roi, kind = roi, None, "asymmetric"
    else:
        kind = call.attr("coordinate_transformation_mode", b"half_pixel").decode()
    stretch = call.attr("keep_aspect_ratio_policy", b"stretch") == b"stretch"
    if call.attr("antialias", 0) or call.attr("exclude_outside", 0) or kind == "tf_crop_and_resize" or not stretch:
        raise Unplayable(f"Resize with {kind}, antialias, exclude_outside or keep_aspect_ratio_policy")
    axes = [axis % x.dim() for axis in call.ints("axes", list(range(x.dim()))) or []]
    factors = scales.reshape(-1).tolist() if scales is not None and scales.numel() else None
    wanted = integers(sizes) if sizes is not None and sizes.numel() else None
    mode = call.attr("mode", b"nearest").decode()
    nearest = "floor" if call.opset < 11 else call.attr("nearest_mode", b"round_prefer_floor").decode()
    for number, axis in enumerate(axes):
        have = x.shape[axis]
        size = wanted[number] if wanted is not None else math.floor(have * factors[number])  # type: ignore[index]
        factor = size / have if wanted is not None else factors[number]  # type: ignore[index]
        if size == have and factor == 1:
            continue
        where = _origins(kind, have, size, factor)
        if mode == "nearest":
            x = x.index_select(axis, _rounded(where, nearest).clamp(0, have - 1))
        else:
            x = _interpolated(x, axis, where, mode, call.attr("cubic_coeff_a", -0.75))
    return x


@onnx_op("Upsample")
def upsample(call: NodeCall, x: Tensor, scales: Tensor | None = None) -> Tensor:
    factors = scales if scales is not None else torch.tensor(call.attr("scales"))
    plain = NodeCall("Resize", "", 10, {"mode": call.attr("mode", b"nearest")}, call.outputs)
    return resize(plain, x, factors)


def _origins(kind: str, have: int, size: int, factor: float) -> Tensor:
    """Return for each position in the result the position in the original, as float64."""
    at = torch.arange(size, dtype=torch.float64)
    if kind == "align_corners":
        return at * (have - 1) / (have * factor - 1) if have * factor != 1 else at * 0
    if kind == "asymmetric":
        return at / factor
    if kind == "tf_half_pixel_for_nn":
        return (at + 0.5) / factor
    if kind == "pytorch_half_pixel" and size <= 1:
        return at * 0
    middle = (at + 0.5) / factor - 0.5
    if kind == "half_pixel_symmetric":
        return middle + have / 2 * (1 - size / (factor * have))
    if kind in ("half_pixel", "pytorch_half_pixel"):
        return middle
    raise Unplayable(f"Resize with {kind}")


def _rounded(where: Tensor, how: str) -> Tensor:
    if how == "floor":
        return torch.floor(where).long()
    if how == "ceil":
        return torch.ceil(where).long()
    half = torch.ceil(where - 0.5) if how == "round_prefer_floor" else torch.floor(where + 0.5)
    return half.long()


def _interpolated(x: Tensor, axis: int, where: Tensor, mode: str, a: float) -> Tensor:
    """Return the weighted sum of two or four neighbours; positions outside take the value at the edge."""
    start = torch.floor(where)
    ratio = where - start
    weights = [1 - ratio, ratio] if mode in ("linear", "bilinear") else _cubic(ratio, a)
    first = 0 if len(weights) == 2 else -1
    shape = [-1 if at == axis else 1 for at in range(x.dim())]
    total = None
    for number, weight in enumerate(weights):
        places = (start.long() + first + number).clamp(0, x.shape[axis] - 1)
        part = x.index_select(axis, places) * weight.to(x.dtype).reshape(shape)
        total = part if total is None else total + part
    assert total is not None
    return total


def _cubic(ratio: Tensor, a: float) -> list[Tensor]:
    far, near, other, last = ratio + 1, ratio, 1 - ratio, 2 - ratio
    outer = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in (far, last)]
    inner = [((a + 2) * d - (a + 3)) * d * d + 1 for d in (near, other)]
    return [outer[0], inner[0], inner[1], outer[1]]
