"""Operators that return the same numbers in another shape or layout."""

from __future__ import annotations

import math

import torch

from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family
from driftline.patterns.inductor.invert.wish import Wish


@family("view", "reshape", "_unsafe_view")
def reshape(call: PatternCall) -> None:
    """Reshape to the wished shape. Without a wish, join or split leading dimensions."""
    name = call.parameters[0].name
    wished = call.wish.shape
    inner = _wish_before_reshape(call, wished)
    value = call.tensor(name, Wish(inner, call.wish.dtype, call.wish.constant))
    shape = tuple(value.shape)
    if wished and math.prod(wished) == math.prod(shape):
        call.value(call.parameters[1].name, list(wished))
        return
    options = {"flat": [shape[0], -1], "same": list(shape)}
    if len(shape) > 2:
        options["joined"] = [math.prod(shape[:-1]), shape[-1]]
    if len(shape) == 2 and shape[0] % 2 == 0:
        options["joined"] = [2, shape[0] // 2, shape[1]]
    way = call.inverter.shared("reshape", call.bench.choose("joined", "joined", "joined", "flat", "flat", "same"))
    call.value(call.parameters[1].name, options.get(way, options["flat"]))


def _wish_before_reshape(call: PatternCall, wished: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return a shape to reshape from: usually three dimensions for two and the reverse, as linear layers have them."""
    if not wished:
        rows, columns = call.sizes.rows, call.sizes.columns
        return call.bench.choose((2 * rows, columns), (2, rows, columns))
    if len(wished) == 2 and wished[0] % 2 == 0:
        return call.bench.choose(*[(2, wished[0] // 2, wished[1])] * 3, wished)
    if len(wished) == 3:
        return call.bench.choose(*[(wished[0] * wished[1], wished[2])] * 3, wished)
    return wished


@family("permute")
def permute(call: PatternCall) -> None:
    wished = call.wish.shape or (call.sizes.inner, call.sizes.columns)
    value = call.tensor("self", Wish(tuple(reversed(wished)), call.wish.dtype, call.wish.constant))
    order = list(range(value.dim()))
    swapped = [*order[:-2], *reversed(order[-2:])]
    call.value("dims", *([[1, 0]] if len(order) == 2 else [swapped, order[::-1], order]))


@family("expand")
def expand(call: PatternCall) -> None:
    wished = call.wish.shape
    before = wished
    if wished and len(wished) == 3 and call.is_pattern("self") and call.wish.constant:
        before = wished[1:]  # a weight matrix for each of the batch
    value = call.tensor("self", Wish(before, call.wish.dtype, call.wish.constant))
    shape = tuple(value.shape)
    if wished and len(wished) >= len(shape):
        lead = len(wished) - len(shape)
        call.value("size", [*wished[:lead], *shape])
    else:
        call.value("size", list(shape))


@family("clone")
def clone(call: PatternCall) -> None:
    value = call.tensor("self", call.wish)
    call.value("memory_format", torch.channels_last if value.dim() == 4 else torch.contiguous_format)


@family("squeeze")
def squeeze(call: PatternCall) -> None:
    value = call.tensor(call.parameters[0].name, Wish((call.sizes.rows, 1, call.sizes.columns)))
    if call.mentions("dim"):
        call.value("dim", *[at for at, size in enumerate(value.shape) if size == 1] or [0])
    elif call.free:
        call.value("dim", *call.bench.choose((1,), (None,)))


@family("unsqueeze")
def unsqueeze(call: PatternCall) -> None:
    call.tensor("self", Wish((call.sizes.rows, call.sizes.columns)))
    call.value("dim", call.inverter.shared("unsqueeze", call.bench.choose(1, 0)))


@family("select")
def select(call: PatternCall) -> None:
    """Select neighbouring rows of one shared tensor."""
    source = call.inverter.shared("selected", None) or call.inverter.leaf(Wish((call.sizes.parts,) * 2))
    call.found["self"] = call.inverter.shared("selected", source)
    call.value("dim", call.inverter.shared("dim", call.bench.choose(1, 0)))
    call.value("index", call.inverter.position)


@family("slice")
def slice_(call: PatternCall) -> None:
    value = call.tensor("self", Wish((call.sizes.rows, call.sizes.columns)))
    dim = call.value("dim", *reversed(range(value.dim())))
    call.value("start", 0)
    size = value.shape[dim]
    call.value("end", size // 2, size - 1, size, 2**63 - 1)
