"""Matrix products: the second factor is a weight."""

from __future__ import annotations

import torch

from driftline.patterns.inductor.invert.call import PatternCall
from driftline.patterns.inductor.invert.families.table import family
from driftline.patterns.inductor.invert.wish import Wish


@family("mm")
def mm(call: PatternCall) -> None:
    _product(call, "self", "mat2")


@family("_int_mm")
def int_mm(call: PatternCall) -> None:
    rows = call.bench.choose(32, 64)  # the operator refuses less than 17
    left = call.tensor("self", Wish((rows, call.sizes.inner), torch.int8))
    call.tensor("mat2", Wish((left.shape[1], call.sizes.columns), torch.int8, constant=True))


@family("addmm")
def addmm(call: PatternCall) -> None:
    left, right = _product(call, "mat1", "mat2")
    rows, columns = left.shape[0], right.shape[1]
    shape = call.bench.choose((columns,), (columns,), (rows, columns), (1, columns))
    call.tensor("self", Wish(shape, left.dtype, constant=True))


@family("bmm")
def bmm(call: PatternCall) -> None:
    sizes, wished = call.sizes, call.wish.shape or ()
    batch, rows, columns = wished if len(wished) == 3 else (sizes.batch, sizes.rows, sizes.columns)
    if call.is_pattern("mat2"):
        right = call.tensor("mat2", Wish((batch, sizes.inner, columns), constant=True))
        call.tensor("self", Wish((right.shape[0], rows, right.shape[1]), right.dtype))
    left = call.tensor("self", Wish((batch, rows, sizes.inner), call.wish.dtype))
    call.tensor("mat2", Wish((left.shape[0], left.shape[2], columns), left.dtype, constant=True))


def _product(call: PatternCall, left_name: str, right_name: str) -> tuple[torch.Tensor, torch.Tensor]:
    sizes, wished = call.sizes, call.wish.shape or ()
    rows, columns = wished if len(wished) == 2 else (sizes.rows, sizes.columns)
    if call.is_pattern(right_name):  # its dtype decides: weights come from a longer way
        right = call.tensor(right_name, Wish((sizes.inner, columns), constant=True))
        return call.tensor(left_name, Wish((rows, right.shape[0]), right.dtype)), right
    left = call.tensor(left_name, Wish((rows, sizes.inner), call.wish.dtype))
    return left, call.tensor(right_name, Wish((left.shape[1], columns), left.dtype, constant=True))
