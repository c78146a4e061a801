"""Mutants with other numbers in the tensors: masks that are not zero or one, zeros, negatives, infinities, NaN."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import torch

from driftline.patterns.inductor.draft import Draft, DraftLeaf
from driftline.patterns.inductor.perturb.mutant import Mutant, leaves, with_leaves

_ORDINARY = {
    "small integers": "small",
    "zeros": "zeros",
    "negative numbers": "-1",
    "ones": "ones",
}
_SPECIAL = {
    "some NaN": 'some:float("nan")',
    "some infinite": 'some:float("inf")',
    "some minus infinite": 'some:float("-inf")',
    "some huge": "some:1e30",
}


def ordinary(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants with other ordinary numbers in one tensor."""
    yield from _filled(draft, _ORDINARY)


def special(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants with some NaN, infinities or huge numbers in one tensor."""
    yield from _filled(draft, _SPECIAL)


def _filled(draft: Draft, fills: Mapping[str, str]) -> Iterator[Mutant]:
    for kind, fill in fills.items():
        for name, leaf in leaves(draft).items():
            if leaf.fill != fill and _holds(leaf, fill):
                changed = with_leaves(draft, _refill(name, fill))
                yield Mutant(f"{kind} in one tensor", changed, where=name, only_numbers=True)


def _holds(leaf: DraftLeaf, fill: str) -> bool:
    """True if the tensor's dtype can hold such numbers, and indices stay in range."""
    if leaf.fill.startswith("indices"):
        return fill == "zeros"
    if fill.startswith("some:"):
        return leaf.dtype.is_floating_point and not (fill.endswith("1e30") and leaf.dtype is torch.float16)
    if fill == "-1":
        return leaf.dtype not in (torch.bool, torch.uint8)
    return fill in ("zeros", "ones") or leaf.dtype is not torch.bool


def _refill(name: str, fill: str) -> Callable[[str, DraftLeaf], DraftLeaf]:
    return lambda other, leaf: replace(leaf, fill=fill) if other == name else leaf
