"""The smallest part that fails by itself: halves first, then, where neither half fails, what lies across the middle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from driftline.diagnose.reduce.nodes import needed

# Several sets of operators at a time: which of them fail by themselves?
Fails = Callable[[Sequence[Sequence[int]]], Sequence[bool]]


def narrow(operators: Sequence[int], fails: Fails) -> list[int]:
    """A part of the operators, which fail together, that fails and is as small as halving finds it.

    Of two halves that fail the first is taken, so that what is found stands as early as possible. Many bugs live in
    fusions: where neither half fails, the part is closed in on from both ends, and what it does not need goes.
    """
    part = list(operators)
    while len(part) > 1:
        middle = len(part) // 2
        halves = part[:middle], part[middle:]
        first, second = fails(halves)
        if not (first or second):
            return _only_needed(_across(part, middle, fails), fails)
        part = halves[0] if first else halves[1]
    return part


def _across(part: list[int], middle: int, fails: Fails) -> list[int]:
    """It takes something on both sides: as late a beginning and as early an end as still fail."""
    low, high = 0, middle - 1  # beginning at `low`, it fails
    while low < high:
        begin = (low + high + 1) // 2
        if fails([part[begin:]])[0]:
            low = begin
        else:
            high = begin - 1
    part, middle = part[low:], middle - low
    low, high = middle + 1, len(part)  # ending at `high`, it fails
    while low < high:
        end = (low + high) // 2
        if fails([part[:end]])[0]:
            high = end
        else:
            low = end + 1
    return part[:high]


def _only_needed(part: list[int], fails: Fails) -> list[int]:
    """Neighbours in the order of a program may have nothing to do with each other."""

    def left(chosen: Collection[int]) -> Collection[int] | None:
        kept = [operator for operator in part if operator in chosen]
        return kept if kept and fails([kept])[0] else None

    return sorted(needed(part, left), key=part.index) if len(part) > 2 else part
