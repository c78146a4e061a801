"""An einsum of three or more operands, whose order of contraction torch leaves open.

torch contracts the operands from left to right, or in the order that opt_einsum finds where that is installed. A tape
holds both: the operations of the program's own order, those of the other one, and an operation that selects a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

MOST_ELEMENTS = 1 << 22  # of an intermediate result: from left to right it may be far larger than in the best order
FEW = 2  # operands: one product, and no order


@dataclass(frozen=True)
class _EinsumSchema:
    """A minimal operator schema for the rules: the operator's name, and no arguments."""

    name: str = "aten::einsum"
    arguments: tuple[str, ...] = ()
    is_mutable: bool = False


class EitherOrder:
    """The operation of a tape that takes the results of an einsum in two orders, and returns the first one."""

    is_view = False
    namespace = "aten"
    tags: tuple[torch.Tag, ...] = ()
    _schema = _EinsumSchema()

    def __str__(self) -> str:
        return "einsum"

    def __call__(self, own: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return own

    @staticmethod
    def of_other(own: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """Return the result of the other order in the memory layout of the first, on which later views depend."""
        return own.clone().copy_(other)


EITHER_ORDER = EitherOrder()


def orders_differ(own: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return a mask of the elements that are not finite and not the same in both orders."""
    same = (own == other) | (own.isnan() & other.isnan())
    return ~same & ~(own.isfinite() & other.isfinite())


def has_other_order(equation: str, operands: Sequence[torch.Tensor]) -> bool:
    """True if torch may contract these operands in another order than from left to right, and that order is short
    enough to be tried."""
    if len(operands) <= FEW or any(torch._C._functorch.is_functorch_wrapped_tensor(each) for each in operands):
        return False
    chosen = torch.backends.opt_einsum
    library = chosen.get_opt_einsum() if chosen.is_available() and chosen.enabled else None
    if library is None:
        return False
    shapes = [tuple(each.shape) for each in operands]
    own, _ = library.contract_path(equation, *shapes, shapes=True, optimize=chosen.strategy)
    # A result goes to the end of the operands: the next one to the right is then the first.
    from_left = [(0, 1), *((0, len(operands) - step) for step in range(2, len(operands)))]
    _, told = library.contract_path(equation, *shapes, shapes=True, optimize=from_left)
    return [tuple(sorted(pair)) for pair in own] != from_left and int(told.largest_intermediate) <= MOST_ELEMENTS
