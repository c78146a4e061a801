"""Find where torch leaves results open: the clauses that apply to an operation and the affected elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from driftline.core.tensors import Array
from driftline.oracle.shadow.call import schema_argument
from driftline.oracle.shadow.decisions import DRAWN, other_places
from driftline.oracle.shadow.marks import marks_of
from driftline.oracle.shadow.torch.einsum import orders_differ
from driftline.oracle.shadow.torch.rules import is_cast, is_exact, name_of
from driftline.oracle.specification import COMPLEX_NONFINITE, clauses_of

# Replacements for open elements in the runs that show which outputs depend on them: small and large, positive and
# negative, odd and even.
ALTERNATIVES = (3, -7, 0, 2**62, -(2**62), 0x5555555555555555, -0x5555555555555555)


def open_elements(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> tuple[str, torch.Tensor] | None:
    """Return the clause that applies to this operation for these values, and a mask of the elements of its result that
    the clause leaves open, or `None`."""
    name = name_of(target)
    if not isinstance(result, torch.Tensor) or not result.numel():
        return None
    if is_cast(target):
        name = "to"
    if (mask := _complex_nonfinite(target, args, kwargs, result)) is not None:
        return COMPLEX_NONFINITE, mask
    for clause in clauses_of("torch", name):
        mask = _RULES[clause.id](target, args, kwargs, result) if clause.id in _RULES else None
        if mask is not None and bool(mask.any()):
            return clause.id, mask
    return None


def _complex_nonfinite(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor
) -> torch.Tensor | None:
    """Return a mask of the elements where complex arithmetic has NaN or infinities, or return `None`. Operations that
    only move numbers are exact and leave nothing open."""
    given = [arg for arg in tree_leaves((args, kwargs)) if isinstance(arg, torch.Tensor) and arg.is_complex()]
    moves = is_exact(target, kwargs) and name_of(target) not in ("abs", "sgn")
    if moves or not (given or name_of(target) == "polar"):
        return None
    mask = ~result.isfinite() if result.is_complex() else torch.zeros(result.shape, dtype=torch.bool)
    for one in given:
        if torch.Tag.pointwise in target.tags:
            mask = mask | ~one.isfinite()
        elif not result.is_complex():
            mask = mask | ~one.isfinite().all()
    return mask if mask.shape == result.shape and bool(mask.any()) else None


def _cast(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor) -> torch.Tensor | None:
    source = args[0]
    integer = not (result.is_floating_point() or result.is_complex() or result.dtype == torch.bool)
    if not integer or not isinstance(source, torch.Tensor) or not source.is_floating_point():
        return None
    limits = torch.iinfo(result.dtype)
    whole = source.trunc()
    # 2^63 - 1 is not a float, so the upper end is compared with the power of two above it
    return whole.isnan() | (whole < float(limits.min)) | (whole >= float(limits.max) + 1.0)


def _shift(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor) -> torch.Tensor | None:
    width = torch.iinfo(result.dtype).bits
    by = torch.as_tensor(args[1]).expand_as(result)
    return (by < 0) | (by >= width)


def _empty(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor) -> torch.Tensor | None:
    return torch.ones(result.shape, dtype=torch.bool)


def _scatter(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor) -> torch.Tensor | None:
    if schema_argument(target, args, kwargs, "accumulate") or schema_argument(target, args, kwargs, "reduce"):
        return None
    written = torch.zeros(result.shape, dtype=torch.int64)
    try:
        if name_of(target) == "scatter":
            written.scatter_add_(args[1], args[2], torch.ones_like(args[2]))
        else:
            indices = schema_argument(target, args, kwargs, "indices")
            written.index_put_(tuple(indices), torch.ones((), dtype=torch.int64), accumulate=True)
    except (RuntimeError, TypeError, IndexError):
        return None
    return written > 1


def _interpolated(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor
) -> torch.Tensor | None:
    """Mask all results that a NaN or infinity may reach: implementations differ in which neighbours have the weight
    zero."""
    source = args[0]
    if not source.is_floating_point() or bool(source.isfinite().all()):
        return None
    marks = torch.from_numpy(marks_of(source.numpy(), range(2, source.dim())))
    return torch.as_tensor(target(marks, *args[1:], **kwargs)) != 0


def _far_sample(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor
) -> torch.Tensor | None:
    far = args[1].isinf().any(-1)  # the last axis of a grid holds the coordinates
    return far.unsqueeze(1).expand_as(result)


def _place_of_nan(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor
) -> torch.Tensor | None:
    if result.is_floating_point():
        return None
    axes = -3 if "3d" in name_of(target) else -2  # indices count over all of these axes
    plane, places = args[0].isnan().flatten(axes), result.flatten(axes)
    several = plane.sum(-1, keepdim=True) > 1
    return (plane.gather(-1, places) & several).reshape(result.shape)


def _sign_of_nan(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor
) -> torch.Tensor | None:
    argument: torch.Tensor = schema_argument(target, args, kwargs, "self")
    return argument.isnan()


def _padded(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor) -> torch.Tensor | None:
    forward = name_of(target) == "convolution" and not schema_argument(target, args, kwargs, "transposed")
    if forward and not any(schema_argument(target, args, kwargs, "padding")):
        return None
    factors = args[1:2] if forward else args[:2] if name_of(target) == "convolution" else args[:3]
    if all(bool(factor.isfinite().all()) for factor in factors):
        return None
    if forward:
        return result.isnan()
    return torch.ones(result.shape, dtype=torch.bool)


def _gradient_at_nan(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor
) -> torch.Tensor | None:
    name = "self_or_result" if name_of(target) == "elu_backward" else "self"
    argument: torch.Tensor = schema_argument(target, args, kwargs, name)
    return argument.isnan()


def _contracted(
    target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: torch.Tensor
) -> torch.Tensor | None:
    return orders_differ(*args[:2])


_RULES = {
    "torch.cast-out-of-range": _cast,
    "torch.shift-beyond-width": _shift,
    "torch.empty": _empty,
    "torch.scatter-duplicates": _scatter,
    "torch.interpolated-infinity": _interpolated,
    "torch.infinitely-far-sample": _far_sample,
    "torch.place-of-nan": _place_of_nan,
    "torch.sign-of-nan": _sign_of_nan,
    "torch.padding-times-infinity": _padded,
    "torch.gradient-at-nan": _gradient_at_nan,
    "torch.einsum-order": _contracted,
}


def replaced(result: torch.Tensor, mask: torch.Tensor, alternative: int | Array, places: int = 0) -> torch.Tensor:
    """Return the result with its open elements replaced. With `places`, the result is a choice and stays a valid
    index."""
    if isinstance(alternative, np.ndarray):
        return result if places else _where(mask, torch.from_numpy(alternative), result)
    if places:
        other = torch.from_numpy(other_places(tuple(result.shape), places, abs(alternative) % (places + DRAWN)))
        return _where(mask, other.to(result.dtype), result)
    if result.dtype == torch.bool:
        return result.masked_fill(mask, bool(alternative % 2))
    if result.is_floating_point() or result.is_complex():
        widest = torch.finfo(result.dtype).max  # float16's is smaller than the alternatives
        value = min(max(float(alternative), -widest), widest)
        return result.masked_fill(mask, complex(value, value + 1) if result.is_complex() else value)
    limits = torch.iinfo(result.dtype)
    value = min(max(alternative, limits.min), limits.max)
    return _where(mask, torch.from_numpy(np.asarray(value, result.numpy().dtype)), result)


def _where(mask: torch.Tensor, chosen: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Select elements like `torch.where`; integers by way of numpy, because torch does not support wide unsigned types
    here."""
    if other.is_floating_point() or other.is_complex():
        return torch.where(mask, chosen, other)
    return torch.from_numpy(np.where(mask.numpy(), chosen.numpy(), other.numpy()).astype(other.numpy().dtype))
