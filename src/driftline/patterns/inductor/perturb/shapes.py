"""Mutants with other sizes: broadcast operands, a batch of one, empty tensors, odd sizes; and other memory layouts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch.fx as fx

from driftline.patterns.inductor.draft import Draft, DraftLeaf
from driftline.patterns.inductor.perturb.mutant import Mutant, calls, leaves, with_leaves


def broadcast(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants with a size of one, fewer dimensions or more in one tensor."""
    for name, leaf in leaves(draft).items():
        shapes = [leaf.shape[1:]] if len(leaf.shape) > 1 else []
        shapes += [_with(leaf.shape, at, 1) for at, size in enumerate(leaf.shape) if size > 1]
        shapes += [(1, *leaf.shape), (3, *leaf.shape)]
        for shape in shapes:
            label = (
                "one tensor with fewer dimensions" if len(shape) < len(leaf.shape) else "a size of one in one tensor"
            )
            label = "one tensor with more dimensions" if len(shape) > len(leaf.shape) else label
            yield Mutant(label, with_leaves(draft, _only(name, shape=shape)), where=name)


def resized(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants with one size replaced everywhere: in the tensors, and in numbers in the program."""
    sizes = Counter(size for leaf in leaves(draft).values() for size in leaf.shape if size > 1)
    for new, kind in ((1, "a size of one everywhere"), (0, "a size of zero everywhere"), (7, "an odd size everywhere")):
        for size, _ in sizes.most_common():
            if size != new:
                yield Mutant(kind, _resize(draft, size, new), where=str(size))


def first_sizes(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants with another first dimension of all inputs: a batch of one, an empty batch, a larger one."""
    first = {leaf.shape[0] for leaf in draft.inputs.values() if leaf.shape}
    if len(first) != 1:
        return
    (size,) = first
    for new, kind in ((1, "a batch of one"), (0, "an empty batch"), (size + 3, "a larger batch")):
        inputs = {n: replace(x, shape=(new, *x.shape[1:])) if x.shape else x for n, x in draft.inputs.items()}
        yield Mutant(kind, replace(draft, inputs=inputs))


def laid_out(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    """Yield mutants with another memory layout of one tensor."""
    for layout in ("transposed", "strided", "swapped", "expanded"):
        for name, leaf in leaves(draft).items():
            if leaf.layout != layout and len(leaf.shape) > (layout not in ("strided", "expanded")):
                yield Mutant(f"{layout} memory", with_leaves(draft, _only(name, layout=layout)), where=name)


def _with(shape: tuple[int, ...], at: int, size: int) -> tuple[int, ...]:
    return (*shape[:at], size, *shape[at + 1 :])


def _only(name: str, **changes: Any) -> Any:
    def change(other: str, leaf: DraftLeaf) -> DraftLeaf:
        return replace(leaf, **changes) if other == name else leaf

    return change


def _resize(draft: Draft, old: int, new: int) -> Draft:
    def swap(value: Any) -> Any:
        if type(value) is int and value == old:
            return new
        if isinstance(value, (list, tuple)):
            return type(value)(map(swap, value)) if type(value) in (list, tuple) else [swap(item) for item in value]
        return value

    copied, _ = draft.copy()
    for node in calls(copied.graph):
        node.args = tuple(arg if isinstance(arg, fx.Node) else swap(arg) for arg in node.args)
    return with_leaves(copied, lambda _, leaf: replace(leaf, shape=tuple(new if s == old else s for s in leaf.shape)))
