"""Additions to a sum of products, which compilers fuse: MatMul and Add become a Gemm, which may start with the addend.

In the program these are two operations, and their separate rules do not allow for that order: each product is then
rounded to the last digit of the addend, which may be much larger.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from driftline.core.tensors import Array
from driftline.oracle.noise import Joint, Products, together

REMEMBERED = 8  # number of sums kept: the addition follows soon, and a large model has many


@dataclass(frozen=True)
class _Remembered:
    result: Any  # kept alive, so that its memory is not reused
    mark: Any
    products: Products


class RecentProducts:
    """The most recent sums of products, looked up by the memory of their results, so that a reshape in between is
    ignored."""

    def __init__(self, mark: Callable[[Any], Any]) -> None:
        self._mark = mark  # key of a result, equal while it has the same memory and contents
        self._recent: deque[_Remembered] = deque(maxlen=REMEMBERED)

    def remember(self, result: Any, products: Products) -> None:
        """Store the sum of products that `result` is."""
        self._recent.append(_Remembered(result, self._mark(result), products))

    def behind(self, value: Any, mark: Any = None) -> Products | None:
        """Return the sum of products whose result is `value` (or had the given mark), reshaped to `value`, or
        `None`."""
        mark = self._mark(value) if mark is None else mark
        for known in reversed(self._recent):
            if known.mark == mark:
                return Products(known.products.squares.reshape(tuple(value.shape)), known.products.terms)
        return None


def layout(shape: Sequence[int], strides: Sequence[int], contiguous: bool) -> tuple[Any, ...]:
    """Return a key that is equal for contiguous values of the same number of elements, and otherwise for values with
    the same sizes and strides, ignoring axes of size 1."""
    if contiguous:
        return (math.prod(shape),)
    return tuple((size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1)


def with_addend_first(
    products: Products, added: Array, result: Array, accumulator: float, size: Array, joint: Joint | None
) -> tuple[Array, Joint | None]:
    """Return the error size and the joint error of an addition, allowing for a sum that starts with the addend."""
    begun, repeated = products.begun_with(added, result, accumulator)
    return together(size, begun), joint or repeated
