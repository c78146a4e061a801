"""Mutants with other dtypes: of one tensor, or of all."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from driftline.patterns.inductor.draft import Draft, DraftLeaf
from driftline.patterns.inductor.perturb.mutant import Mutant, leaves, with_leaves

_DTYPES = (
    torch.float64,
    torch.int64,
    torch.bool,
    torch.bfloat16,
    torch.float16,
    torch.int8,
    torch.float32,
    torch.uint8,
)


def one(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    for dtype in _DTYPES:
        for name, leaf in leaves(draft).items():
            if leaf.dtype is not dtype and not leaf.fill.startswith("indices"):
                changed = with_leaves(draft, _retype({name}, dtype))
                yield Mutant("one tensor of another dtype", changed, where=f"{name}, {_word(dtype)}")


def all_alike(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants with another dtype of all floats, or of all integers."""
    present = leaves(draft)
    floats = {name for name, leaf in present.items() if leaf.dtype.is_floating_point}
    integers = {n for n, leaf in present.items() if leaf.dtype in (torch.int64, torch.int32) and ":" not in leaf.fill}
    for dtype in _DTYPES:
        if floats and {present[name].dtype for name in floats} != {dtype}:
            changed = with_leaves(draft, _retype(floats, dtype))
            yield Mutant("another dtype everywhere", changed, where=_word(dtype))
        if integers and not dtype.is_floating_point:
            changed = with_leaves(draft, _retype(integers, dtype))
            yield Mutant("another dtype of integers", changed, where=_word(dtype))


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _retype(names: set[str], dtype: torch.dtype) -> Callable[[str, DraftLeaf], DraftLeaf]:
    def change(name: str, leaf: DraftLeaf) -> DraftLeaf:
        if name not in names:
            return leaf
        parameter = leaf.parameter and (dtype.is_floating_point or dtype.is_complex)
        return replace(leaf, dtype=dtype, parameter=parameter)

    return change
