"""Operators that read and write at the indices in a tensor."""

from __future__ import annotations

import torch

from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family
from driftline.patterns.inductor.invert.wish import Wish


@family("scatter")
def scatter(call: PatternCall) -> None:
    value = call.tensor("self", Wish(call.sizes.matrix))
    dim = call.value("dim", value.dim() - 1, 0)
    places = list(value.shape)
    places[dim] = 1
    call.tensor("index", Wish(tuple(places), torch.int64, fill=f"indices:{value.shape[dim]}"))
    call.value("value", 1, 2.0)


@family("index_put", "index_put_")
def index_put(call: PatternCall) -> None:
    """Choose many writes to few rows: the rule applies only to those."""
    rows, writes = call.bench.choose(256, 1024), call.bench.choose(8192, 16384)
    value = call.tensor("self", Wish((rows, 16)))
    places = Wish((writes,), torch.int64, fill=f"indices:{rows}")
    call.tensors("indices", [places])
    call.tensor("values", Wish((writes, 16), value.dtype))
