"""The properties that an operator wants of a tensor that it reads."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class Wish:
    """The wanted properties of a tensor. Fields that are None are chosen by the code that creates the tensor."""

    shape: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None
    constant: bool = False  # a weight: owned by the module if the compiler handles weights specially
    fill: str = "normal"
    computed: bool = False  # neither an input nor owned, but the result of something

    def shaped(self, *shape: int) -> Wish:
        return replace(self, shape=shape)

    def typed(self, dtype: torch.dtype | None) -> Wish:
        return replace(self, dtype=dtype)


class NotBuilt(Exception):
    """No program with this pattern was found; the message says why."""
