"""Splitting tensors and concatenating them."""

from __future__ import annotations

from typing import Any

import torch

from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family
from driftline.patterns.inductor.invert.wish import Wish


@family("split", "split_with_sizes")
def split(call: PatternCall) -> None:
    """Split into parts of one size (sometimes of one row), or into a single part."""
    first, second, *_ = call.parameters
    parts, width = call.sizes.parts, call.inverter.shared("width", call.bench.choose(2, 1))
    dim = call.value("dim", *call.inverter.dims(3))
    value = call.tensor(first.name, Wish(_with(dim, parts * width)))
    size = value.shape[dim]
    each = max(1, size // parts)
    sections: list[Any] = [[each] * (size // each), [size]]
    if size % each:
        sections = [[*[each] * (size // each), size % each]]
    if second.kind == "int":
        sections = [each, size]
    elif not isinstance(call.target, torch._ops.OpOverload) and call.free:
        sections = [each, *sections]
    call.value(second.name, sections[0], *sections)


def _with(dim: int, size: int) -> tuple[int, ...]:
    shape = [4, 6, 8]
    shape[dim] = size
    return tuple(shape)


@family("unbind")
def unbind(call: PatternCall) -> None:
    dim = call.value("dim", *call.inverter.dims(3)) if call.mentions("dim") or call.bench.choose(True, False) else 0
    call.tensor(call.parameters[0].name, Wish(_with(dim, call.sizes.parts)))


@family("getitem")
def getitem(call: PatternCall) -> None:
    """Take the item at the current position in the list that is being built."""
    items = call.tensor("a", call.wish)
    call.value("b", call.inverter.position % len(items))


@family("cat", "concat", "stack")
def cat(call: PatternCall) -> None:
    wish = Wish(call.wish.shape, call.wish.dtype)
    count = call.sizes.parts - call.bench.choose(0, 0, 1)  # all parts of the split, or all but one
    items = call.tensors(call.parameters[0].name, [wish] * count)
    if call.mentions("dim") or call.bench.choose(True, False):
        call.value("dim", *call.inverter.dims(items[0].dim()), *([-1] if call.free else []))
