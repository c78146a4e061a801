"""Divides programs into equal pieces, or into groups that are compiled together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def evenly(items: Sequence[Item], pieces: int) -> Iterator[Sequence[Item]]:
    """Split items into pieces of about equal size, in order; fewer pieces if there are not enough items."""
    count = min(pieces, len(items))
    ends = [round(len(items) * number / count) for number in range(count + 1)] if count else []
    return (items[start:end] for start, end in itertools.pairwise(ends))


def in_company(items: Iterable[Item], company: Callable[[Item], str], size: int) -> Iterator[Sequence[Item]]:
    """Split programs into groups that may be compiled together: those with the same company, in groups of about equal
    size up to `size`. Each program without a company is a group of its own."""
    companies: dict[str, list[Item]] = {}
    for item in items:
        companies.setdefault(company(item), []).append(item)
    for name, members in companies.items():
        yield from evenly(members, math.ceil(len(members) / size) if name else len(members))
