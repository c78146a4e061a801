"""The player's convolutions and pools, over any number of axes, with ONNX's paddings."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from driftline.programs.onnx.player.call import NodeCall, Unplayable, onnx_op

_CONVOLUTIONS: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Any] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_MAX_POOLS: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}


class Window:
    """The kernel, stride, dilation and padding of a node, with defaults filled in."""

    def __init__(self, call: NodeCall, sizes: list[int], kernel: list[int]) -> None:
        self.axes = len(kernel)
        if self.axes not in _CONVOLUTIONS:
            raise Unplayable(f"{call.op_type} over {self.axes} axes")
        self.kernel = kernel
        self.strides = call.ints("strides", [1] * self.axes) or []
        self.dilations = call.ints("dilations", [1] * self.axes) or []
        self.reach = [(k - 1) * d + 1 for k, d in zip(kernel, self.dilations, strict=True)]
        pads = call.ints("pads", [0] * 2 * self.axes) or []
        self.low, self.high = pads[: self.axes], pads[self.axes :]
        auto = call.attr("auto_pad", b"NOTSET").decode()
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            self._same(sizes, auto == "SAME_LOWER")
        elif auto == "VALID":
            self.low, self.high = [0] * self.axes, [0] * self.axes

    def _same(self, sizes: list[int], more_below: bool) -> None:
        for axis, (size, stride, reach) in enumerate(zip(sizes, self.strides, self.reach, strict=True)):
            total = max((-(-size // stride) - 1) * stride + reach - size, 0)
            less, more = total // 2, total - total // 2
            self.low[axis], self.high[axis] = (more, less) if more_below else (less, more)

    def ceiling(self, sizes: list[int]) -> list[int]:
        """Return additional padding at the end, so that a last window that begins inside the tensor counts in full."""
        extra = []
        for size, stride, reach, low, high in zip(sizes, self.strides, self.reach, self.low, self.high, strict=True):
            room = size + low + high - reach
            count = -(-room // stride)
            if count * stride >= size + low:  # it would begin in the padding at the end
                count -= 1
            extra.append(max(count * stride - room, 0))
        return extra

    def padded(self, x: Tensor, value: float, extra: list[int] | None = None) -> Tensor:
        extra = extra or [0] * self.axes
        flat = [n for low, high, more in zip(self.low, self.high, extra, strict=True) for n in (high + more, low)]
        flat.reverse()
        return F.pad(x, flat, value=value) if any(flat) else x


def _with_axes(x: Tensor, axes: int) -> list[int]:
    return list(x.shape[2 : 2 + axes])


@onnx_op("Conv")
def convolution(call: NodeCall, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    kernel = list(weight.shape[2:])
    if not kernel:
        raise Unplayable("a Conv without spatial axes")
    window = Window(call, _with_axes(x, len(kernel)), kernel)
    groups = call.attr("group", 1)
    same = window.low == window.high
    given = x if same else window.padded(x, 0.0)
    padding = window.low if same else [0] * window.axes
    function = _CONVOLUTIONS[window.axes]
    return function(given, weight, bias, window.strides, padding, window.dilations, groups)  # type: ignore[no-any-return]


@onnx_op("ConvTranspose")
def transposed_convolution(call: NodeCall, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    kernel = list(weight.shape[2:])
    window = Window(call, _with_axes(x, len(kernel)), kernel)
    more = call.ints("output_padding", [0] * window.axes) or []
    full = [
        (s - 1) * stride + reach for s, stride, reach in zip(x.shape[2:], window.strides, window.reach, strict=True)
    ]
    auto, wanted = call.attr("auto_pad", b"NOTSET").decode(), call.ints("output_shape")
    low, high = list(window.low), list(window.high)
    if auto.startswith("SAME") and wanted is None:
        wanted = [s * stride for s, stride in zip(x.shape[2:], window.strides, strict=True)]
    if wanted is not None:
        wanted = wanted[-window.axes :]
        for axis, (have, extra, size) in enumerate(zip(full, more, wanted, strict=True)):
            total = max(have + extra - size, 0)
            less, most = total // 2, total - total // 2
            low[axis], high[axis] = (less, most) if auto == "SAME_UPPER" else (most, less)
            more[axis] = max(size - (have - total), 0)
    function, groups = _TRANSPOSED[window.axes], call.attr("group", 1)
    made = function(x, weight, bias, window.strides, 0, 0, groups, window.dilations)
    for axis, (below, above, extra) in enumerate(zip(low, high, more, strict=True)):
        made = made.narrow(axis + 2, below, max(made.shape[axis + 2] - below - max(above - extra, 0), 0))
        missing = extra - min(above, extra)
        if missing:  # only the bias contributes there
            shape = [missing if at == axis + 2 else size for at, size in enumerate(made.shape)]
            rest = made.new_zeros(shape) if bias is None else bias.reshape(1, -1, *[1] * window.axes).expand(shape)
            made = torch.cat((made, rest), axis + 2)
    return made  # type: ignore[no-any-return]


# -- pools -----------------------------------------------------------------------------------------------------------


@onnx_op("MaxPool")
def max_pool(call: NodeCall, x: Tensor) -> Any:
    kernel = call.ints("kernel_shape") or []
    sizes = _with_axes(x, len(kernel))
    window = Window(call, sizes, kernel)
    extra = window.ceiling(sizes) if call.attr("ceil_mode", 0) else None
    if call.wants(1):
        return _max_pool_with_places(call, x, window, extra)
    floats = x if x.is_floating_point() else x.to(torch.float64)
    padded = window.padded(floats, -math.inf, extra)
    made = _MAX_POOLS[window.axes](padded, kernel, window.strides, 0, window.dilations)
    return made.to(x.dtype)


def _max_pool_with_places(call: NodeCall, x: Tensor, window: Window, extra: list[int] | None) -> tuple[Tensor, Tensor]:
    floats = x if x.is_floating_point() else x.to(torch.float64)
    padded = window.padded(floats, -math.inf, extra)
    function = _MAX_POOLS[window.axes]
    made, places = function(padded, window.kernel, window.strides, 0, window.dilations, return_indices=True)
    sizes = list(x.shape[2:])
    coordinates = []
    for size, below in zip(reversed(padded.shape[2:]), reversed(window.low), strict=True):
        coordinates.append(places % size - below)
        places = places // size
    coordinates.reverse()
    order = list(range(window.axes))
    if call.attr("storage_order", 0):
        order.reverse()
    flat = torch.zeros_like(places)
    for axis in order:
        flat = flat * sizes[axis] + coordinates[axis]
    planes = torch.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *[1] * window.axes)
    return made.to(x.dtype), flat + planes * math.prod(sizes)


@onnx_op("AveragePool")
def average_pool(call: NodeCall, x: Tensor) -> Tensor:
    kernel = call.ints("kernel_shape") or []
    sizes = _with_axes(x, len(kernel))
    window = Window(call, sizes, kernel)
    extra = window.ceiling(sizes) if call.attr("ceil_mode", 0) else [0] * window.axes
    ones = torch.ones(1, 1, *sizes, dtype=x.dtype)
    if call.attr("count_include_pad", 0):  # padding counts, except what was added for the last window
        ones = window.padded(ones, 1.0)
        counted = F.pad(ones, [n for more in reversed(extra) for n in (0, more)])
    else:
        counted = window.padded(ones, 0.0, extra)
    function = _CONVOLUTIONS[window.axes]
    filled = torch.ones(1, 1, *kernel, dtype=x.dtype)
    counts = function(counted, filled, None, window.strides, 0, window.dilations)
    padded = window.padded(x, 0.0, extra)
    flat = padded.reshape(-1, 1, *padded.shape[2:])
    sums = function(flat, filled, None, window.strides, 0, window.dilations)
    return (sums / counts).reshape(*x.shape[:2], *sums.shape[2:])  # type: ignore[no-any-return]


@onnx_op("GlobalAveragePool")
def global_average_pool(call: NodeCall, x: Tensor) -> Tensor:
    return x.mean(tuple(range(2, x.dim())), keepdim=True)


@onnx_op("GlobalMaxPool")
def global_max_pool(call: NodeCall, x: Tensor) -> Tensor:
    return x.amax(tuple(range(2, x.dim())), keepdim=True)
