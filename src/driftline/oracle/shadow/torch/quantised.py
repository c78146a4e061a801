"""Quantisation in torch programs: which operations of a tape quantise, and decompositions of the quantised operators.

Quantising is always rounding, optionally adding a zero point, and clamping. Operators that do this in one step exist in
float32 only, so they are decomposed on the tape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from driftline.oracle.shadow.tape import Constant, Slot, Tape, TapeNode
from driftline.oracle.shadow.torch.rules import is_cast, name_of

_SHIFTS = {"add", "sub"}  # the zero point
_LINEAR = {"upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "_upsample_bilinear2d_aa"}
_CLAMPS = {"clamp", "clip"}
_EXACT = 2.0**-23  # float types at least this precise add a zero point exactly


def quantising_nodes(tape: Tape) -> set[int]:
    """Return the numbers of the round operations whose result is clamped, possibly after a zero point was added."""
    clamps = (node for node in tape.nodes if name_of(node.target) in _CLAMPS)
    return {found for node in clamps if (found := _rounding_behind(tape, node.args[0])) is not None}


def interpolations_of_integers(tape: Tape) -> set[int]:
    """Return the numbers of the linear interpolations of 8-bit integers.

    An implementation that interpolates one axis after the other rounds twice and may be one unit off, and one that
    rounds once is legal too. Cubic ones are left out: they also saturate in between, which changes the result.
    """
    return {
        number
        for number, node in enumerate(tape.nodes)
        if name_of(node.target) in _LINEAR and node.dtypes[0] in (torch.uint8, torch.int8)
    }


def works_on_quantised(tape: Tape, node: TapeNode) -> bool:
    """True if the node follows a round operation: the zero point, the clamp, or the cast to integers. Its arguments and
    results are whole numbers, so it neither rounds nor decides. Casts to floats are excluded, because a small float
    type may round."""
    if name_of(node.target) not in _CLAMPS and not _to_integers(node) and not _shifts_exactly(tape, node):
        return False
    return _rounding_behind(tape, node.args[0], exactly=True) is not None


def _rounding_behind(tape: Tape, place: Any, *, exactly: bool = False) -> int | None:
    """Return the number of the round operation that made this value, through zero points and clamps only, or `None`.
    `exactly`: without any other rounding in between."""
    while isinstance(place, Slot):
        node = tape.nodes[place.node]
        name = name_of(node.target)
        if name == "round":  # rounding to decimals does not give whole numbers
            return None if "decimals" in node.kwargs else place.node
        shifts = _shifts_exactly(tape, node) if exactly else _shifts(tape, node)
        if name not in _CLAMPS and not shifts:
            return None
        place = node.args[0]
    return None


def _to_integers(node: TapeNode) -> bool:
    dtype = node.dtypes[0] if node.dtypes else None
    return is_cast(node.target) and dtype is not None and not (dtype.is_floating_point or dtype.is_complex)


def _shifts(tape: Tape, node: TapeNode) -> bool:
    """True if the node adds a zero point."""
    return name_of(node.target) in _SHIFTS and _is_whole(tape, node.args[1])


def _shifts_exactly(tape: Tape, node: TapeNode) -> bool:
    """True if the node adds a zero point without rounding. float16 is exact for whole numbers up to 2048 only, so there
    all uses of the result must clamp it to that range."""
    if not _shifts(tape, node):
        return False
    dtype = node.dtypes[0] if node.dtypes else None
    if dtype is None or not dtype.is_floating_point or torch.finfo(dtype).eps <= _EXACT:
        return True
    number = next(at for at, other in enumerate(tape.nodes) if other is node)
    readers = [other for other in tape.nodes if Slot(number, 0) in tree_leaves((other.args, other.kwargs))]
    return bool(readers) and all(_clamps_within(other, 2 / torch.finfo(dtype).eps) for other in readers)


def _clamps_within(node: TapeNode, limit: float) -> bool:
    bounds = node.args[1:3]
    numbers = [bound for bound in bounds if isinstance(bound, int | float)]
    return name_of(node.target) in _CLAMPS and len(numbers) == 2 and all(abs(number) <= limit for number in numbers)


def _is_whole(tape: Tape, value: Any) -> bool:
    if isinstance(value, Constant):
        tensor = tape.constants[value.number]
        return not tensor.is_floating_point() or bool((tensor == tensor.round()).all())
    if isinstance(value, Slot):
        dtype = tape.dtype(value)
        return dtype is not None and not dtype.is_floating_point
    return isinstance(value, int | float) and float(value).is_integer()


def _quantise(
    x: torch.Tensor, scale: Any, zero_point: Any, lowest: int, highest: int, dtype: torch.dtype
) -> torch.Tensor:
    return torch.clamp(torch.round(x * (1.0 / scale)) + zero_point, lowest, highest).to(dtype)


def _dequantise(
    x: torch.Tensor, scale: Any, zero_point: Any, lowest: int, highest: int, dtype: torch.dtype, *,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:  # fmt: skip
    return (x.to(out_dtype or torch.float32) - zero_point) * scale


def _along(values: torch.Tensor | None, axis: int, like: torch.Tensor) -> Any:
    if values is None:
        return 0
    return values.reshape([-1 if at == axis % like.dim() else 1 for at in range(like.dim())])


def _quantise_channels(
    x: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor, axis: int, lowest: int, highest: int,
    dtype: torch.dtype,
) -> torch.Tensor:  # fmt: skip
    return _quantise(x, _along(scales, axis, x).to(x.dtype), _along(zero_points, axis, x), lowest, highest, dtype)


def _dequantise_channels(
    x: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor | None, axis: int, lowest: int, highest: int,
    dtype: torch.dtype, *, out_dtype: torch.dtype | None = None,
) -> torch.Tensor:  # fmt: skip
    result = _dequantise(
        x, _along(scales, axis, x), _along(zero_points, axis, x), lowest, highest, dtype, out_dtype=out_dtype
    )
    return result.to(out_dtype or torch.float32)


def _imitate(
    x: torch.Tensor, scale: Any, zero_point: Any, lowest: int, highest: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise and dequantise, as in quantisation-aware training; also return a mask of the elements that were not
    clamped."""
    quantised = torch.round(x * (1.0 / scale)) + zero_point
    inside = (quantised >= lowest) & (quantised <= highest)
    return (torch.clamp(quantised, lowest, highest) - zero_point) * scale, inside


def _imitate_channels(
    x: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor, axis: int, lowest: int, highest: int
) -> tuple[torch.Tensor, torch.Tensor]:
    return _imitate(x, _along(scales, axis, x), _along(zero_points, axis, x), lowest, highest)


def quantised_parts() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of quantised operators."""
    import torch.ao.quantization.fx._decomposed  # registers the operators

    operators = torch.ops.quantized_decomposed
    return {
        operators.quantize_per_tensor.default: _quantise,
        operators.quantize_per_tensor.tensor: _quantise,
        operators.dequantize_per_tensor.default: _dequantise,
        operators.dequantize_per_tensor.tensor: _dequantise,
        operators.quantize_per_channel.default: _quantise_channels,
        operators.dequantize_per_channel.default: _dequantise_channels,
        torch.ops.aten.fake_quantize_per_tensor_affine_cachemask.default: _imitate,
        torch.ops.aten.fake_quantize_per_channel_affine_cachemask.default: _imitate_channels,
    }
