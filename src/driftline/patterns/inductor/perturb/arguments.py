"""Mutants with other numbers, dimensions, lists, flags and dtypes among the arguments of a call.

Patterns that were stored as text match any integer or list there, and a rule's handler may not check the value.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import torch

from driftline.patterns.inductor.draft import Draft
from driftline.patterns.inductor.perturb.mutant import Mutant, calls, is_tensor, value_of, with_argument
from driftline.patterns.inductor.perturb.signature import name_of, place_of

_WORDS = {"none": ["tanh", "sum"], "tanh": ["none"], "mean": ["sum", "none"], "sum": ["mean"], "floor": ["trunc"],
          "trunc": ["floor"], "bilinear": ["nearest"], "nearest": ["bilinear"], "zeros": ["border"]}  # fmt: skip
DTYPES = (torch.float64, torch.int32, torch.float16, torch.bool, torch.float32, torch.bfloat16, torch.int64)


def mutants(draft: Draft, chance: random.Random) -> Iterator[Mutant]:
    for node in calls(draft.graph):
        places: list[int | str] = [*range(len(node.args)), *node.kwargs]
        for at in places:
            old = node.args[at] if isinstance(at, int) else node.kwargs[at]
            rank = next((value_of(arg).dim() for arg in node.args if is_tensor(arg)), 0)
            for new in others(place_of(node, at), old, rank, chance):
                label = f"argument {place_of(node, at)} of {name_of(node)}"
                yield Mutant(label, with_argument(draft, node, at, new))


def others(name: str, old: Any, rank: int, chance: random.Random) -> Iterator[Any]:
    """Yield other values of the same type, those most likely to matter first."""
    if isinstance(old, bool):
        yield not old
    elif isinstance(old, int):
        yield from _integers(name, old, rank)
    elif isinstance(old, float):
        yield from (value for value in (-old, 0.0, 3.0, 1.0, 1e-3) if value != old)
    elif isinstance(old, torch.dtype):
        yield from (dtype for dtype in DTYPES if dtype is not old)
    elif isinstance(old, str):
        yield from _WORDS.get(old, [])
    elif isinstance(old, (list, tuple)) and old and all(type(item) is int for item in old):
        yield from _lists(list(old), chance)
    elif isinstance(old, slice):
        yield from (slice(1, old.stop, old.step), slice(old.start, old.stop, 2), slice(old.start, None, old.step))


def _integers(name: str, old: int, rank: int) -> Iterator[int]:
    if "dim" in name or "axis" in name:
        place = old % rank if rank else old
        yield from (dim - rank for dim in reversed(range(rank)) if dim != place)
        return
    yield from (value for value in (old + 1, old - 1, 2 * old, 0, -old) if value != old)


def _lists(old: list[int], chance: random.Random) -> Iterator[list[int]]:
    shuffled = chance.sample(old, len(old))
    candidates = [
        old[::-1],
        shuffled,
        [*old[:-2], old[-1], old[-2]] if len(old) > 1 else [0],
        [*old[:-1], old[-1] + 1],
        [old[0] + 1, *old[1:]],
        [*old[:-1], -1],
        [1, *old],
        old[:-1],
    ]
    seen = [old]
    for candidate in candidates:
        if candidate and candidate not in seen:
            seen.append(candidate)
            yield candidate
