"""Operators that reduce dimensions, or run along one."""

from __future__ import annotations

from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family
from driftline.patterns.inductor.invert.wish import Wish


@family("amax", "amin", "max", "min")
def extreme(call: PatternCall) -> None:
    shape = call.wish.shape or call.bench.choose((64, 64), (4, 8))  # small ones are not worth a rewrite
    value = call.tensor("self", Wish(shape, call.wish.dtype))
    if call.mentions("dim"):
        call.value("dim", [value.dim() - 1], [-1], [0])
        call.value("keepdim", True, True, False)


@family("cumsum")
def cumsum(call: PatternCall) -> None:
    value = call.tensor("self", call.wish)
    call.value("dim", value.dim() - 1, 0)


@family("argmax")
def argmax(call: PatternCall) -> None:
    call.tensor("input", Wish((call.sizes.rows, call.sizes.columns)))
