"""Additions to a sum of products, which compilers fuse: MatMul and Add become a Gemm, which may begin with the addend.

The program has two operations there, and the rule of each by itself does not allow for that order: every one of the
products is then rounded to the last digit of the addend, which may be much the larger.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from driftline.core.tensors import Array
from driftline.oracle.noise import Joint, Products, together

REMEMBERED = 8  # sums of products: the addition follows soon, and a large model has many


@dataclass(frozen=True)
class _Remembered:
    result: Any  # kept, so that its memory is not given to another
    mark: Any
    products: Products


class RecentProducts:
    """The last sums of products, found again by the memory of their results: a reshape in between changes nothing."""

    def __init__(self, mark: Callable[[Any], Any]) -> None:
        self._mark = mark  # of a result: equal as long as it lies in the same memory with the same contents
        self._recent: deque[_Remembered] = deque(maxlen=REMEMBERED)

    def remember(self, result: Any, products: Products) -> None:
        self._recent.append(_Remembered(result, self._mark(result), products))

    def behind(self, value: Any, mark: Any = None) -> Products | None:
        """The sum of products that this value is, or was when it had this mark; none where it is something else, or is
        laid out in another way."""
        mark = self._mark(value) if mark is None else mark
        for known in reversed(self._recent):
            if known.mark == mark:
                return Products(known.products.squares.reshape(tuple(value.shape)), known.products.terms)
        return None


def layout(shape: Sequence[int], strides: Sequence[int], contiguous: bool) -> tuple[Any, ...]:
    """Equal for values of the same elements in the same order, whatever their shapes."""
    if contiguous:
        return (math.prod(shape),)
    return tuple((size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1)


def with_addend_first(
    products: Products, added: Array, result: Array, accumulator: float, size: Array, joint: Joint | None
) -> tuple[Array, Joint | None]:
    """The size of the error of an addition, and what repeats in it, if the sum may begin with the addend."""
    begun, repeated = products.begun_with(added, result, accumulator)
    return together(size, begun), joint or repeated
