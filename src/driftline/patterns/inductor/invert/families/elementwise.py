"""Elementwise operators: all tensors have one shape, or shapes that broadcast to it."""

from __future__ import annotations

import torch

from driftline.patterns.inductor.invert import holes
from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family
from driftline.patterns.inductor.invert.wish import Wish


@family("elementwise")
def elementwise(call: PatternCall) -> None:
    tensors = [p.name for p in call.parameters if p.kind == "tensor" and (p.required or call.mentions(p.name))]
    for name in sorted(tensors, key=call.freedom):
        like = next(call.known(), None)
        if like is None:
            call.tensor(name, call.wish)
        elif call.is_pattern(name):
            call.tensor(name, Wish(tuple(like.shape), like.dtype))
        elif (
            call.takes_numbers
            and name != tensors[0]
            and call.hole(name) not in holes.BIASES
            and call.bench.choose(False, False, True)
        ):
            call.value(name, 2.0, 0.5, -1.5)
        else:
            call.tensor(name, _beside(call, call.hole(name), like))


@family("clamp")
def clamp(call: PatternCall) -> None:
    call.tensor("input", call.wish)
    call.value("min", -0.5)
    call.value("max", 0.5, None)


@family("where")
def where(call: PatternCall) -> None:
    elementwise(call)
    like = next(call.known())
    call.tensor("condition", Wish(tuple(like.shape), torch.bool))


def _beside(call: PatternCall, name: str, like: torch.Tensor) -> Wish:
    """Return the wish for a second operand: a bias if the hole's name says so, else a tensor of the same or a
    broadcastable shape."""
    shape = tuple(like.shape)
    if name in holes.BIASES:
        return Wish(shape[-1:], like.dtype, constant=True)
    options = [shape]
    if len(shape) > 2:
        ones = (1,) * (len(shape) - 2)
        options += [(1, shape[1], *ones), (*shape[:2], *ones), (1, 1, *ones), (shape[-1],)]
    if len(shape) == 2:
        options += [(shape[-1],), (1, shape[-1]), (shape[0], 1)]
    wished, dtype = call.wish.dtype, like.dtype
    if wished is not None and wished.is_floating_point and wished.itemsize > dtype.itemsize:
        dtype = wished  # the result will have it too
    kind = call.bench.choose("input", "constant", "computed")
    return Wish(call.bench.choose(*options), dtype, constant=kind == "constant", computed=kind == "computed")
