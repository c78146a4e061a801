"""Operators that convert between dtypes."""

from __future__ import annotations

import torch

from driftline.patterns.inductor.invert import holes
from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family
from driftline.patterns.inductor.invert.wish import Wish

_FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def _another(call: PatternCall, target: torch.dtype | None) -> torch.dtype:
    """Choose a dtype to cast from, different from the target if possible: casts that change nothing are removed before
    the rules run."""
    if target is None:
        return call.bench.choose(*_FLOATS)
    if target.itemsize < 4:
        return torch.float32
    return call.bench.dtype if call.bench.dtype is not target else torch.bfloat16


@family("convert_element_type")
def convert_element_type(call: PatternCall) -> None:
    """Choose the source tensor and the dtype. The wish describes the result; the source keeps the dtype that it is made
    with."""
    name = call.parameters[0].name
    hole = getattr(call.given.get("dtype"), "name", "")
    known = holes.VALUES.get(hole)
    inner = Wish(call.wish.shape, _another(call, known[0] if known else None), call.wish.constant)
    if call.target is torch.ops.quantized_decomposed.convert_element_type.no_fuse:
        inner = inner.typed(torch.float32)  # a weight on its way to half precision and back
    value = call.tensor(name, inner)
    wished = call.wish.dtype or call.bench.dtype
    if known:
        call.value("dtype", *known)
    elif value.dtype != wished:
        call.value("dtype", wished)
    else:
        others = [dtype for dtype in _FLOATS if dtype is not value.dtype]
        call.value("dtype", *others, *others, value.dtype)
