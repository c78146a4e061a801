"""The values that an open element of a torch operation may have, where the specification has only a few readings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from driftline.oracle.shadow.call import schema_argument
from driftline.oracle.shadow.onnx.readings import written_in_turns
from driftline.oracle.shadow.torch.einsum import orders_differ
from driftline.oracle.shadow.torch.rules import name_of


def readings_of(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> list[torch.Tensor]:
    """Return the result under each reading, or an empty list where open elements may have any value."""
    rule = _RULES.get(name_of(target))
    return rule(target, args, kwargs, result) if rule and isinstance(result, torch.Tensor) else []


def _complex_sum(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor
) -> list[torch.Tensor]:
    """Return the readings of a complex addition: real and imaginary parts added separately, or the second operand
    multiplied by a complex factor first, which turns parts next to an infinity into NaN."""
    if not result.is_complex() or result is args[0]:  # written in place: the first operand is overwritten
        return []
    alpha = schema_argument(target, args, kwargs, "alpha")
    if isinstance(alpha, complex):
        return []
    sign = (-1 if name_of(target) == "sub" else 1) * (1 if alpha is None else alpha)
    first, second = (torch.view_as_real(torch.as_tensor(one, dtype=result.dtype).expand_as(result)) for one in args[:2])
    parts = first + sign * second
    spoilt = torch.where(parts.isfinite(), parts, torch.nan)
    beside = torch.where(parts.isinf(), parts, torch.nan)
    return [torch.view_as_complex(values.contiguous()) for values in (parts, spoilt, beside, parts + torch.nan)]


def _scatter(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor) -> list[torch.Tensor]:
    """Return the result for each order of updates to the same element: any of them may be the last."""
    data, whole = args[0], torch.arange(result.numel()).reshape(result.shape)
    if data.is_complex() or data.dtype in (torch.uint16, torch.uint32, torch.uint64):
        return []
    if name_of(target) == "scatter":
        if schema_argument(target, args, kwargs, "reduce") or not isinstance(args[3], torch.Tensor):
            return []
        dim, index, updates = args[1], args[2], args[3]
        if not data.dim() or index.dim() != data.dim():
            return []
        corner = whole[tuple(slice(size) if axis != dim % data.dim() else slice(None) for axis, size in
                             enumerate(index.shape))]  # fmt: skip
        places = corner.gather(dim, index)
        updates = updates[tuple(slice(size) for size in index.shape)]
    elif name_of(target) == "index_put":
        if schema_argument(target, args, kwargs, "accumulate"):
            return []
        indices = [slice(None) if index is None else index for index in args[1]]
        places, updates = whole[tuple(indices)], args[2]
    else:
        return []
    turns = written_in_turns(data.numpy(), np.asarray(places.numpy()), updates.broadcast_to(places.shape).numpy())
    return [torch.from_numpy(written) for written in turns]


def _einsum(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor) -> list[torch.Tensor]:
    """Return the results of both orders. Where one of them is a number, terms overflow in doubles, and a third order
    may have another result."""
    own, other = args[:2]
    numbers = orders_differ(own, other) & (own.isfinite() | other.isfinite())
    return [] if bool(numbers.any()) else [own, other]


_RULES: dict[str, Callable[[Any, tuple[Any, ...], dict[str, Any], torch.Tensor], list[torch.Tensor]]] = {
    "add": _complex_sum,
    "sub": _complex_sum,
    "einsum": _einsum,
    "scatter": _scatter,
    "index_put": _scatter,
}
