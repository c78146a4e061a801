"""Find the smallest part that fails alone: by halving first, then, if neither half fails, by the part across the
middle.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from driftline.diagnose.reduce.nodes import needed

# Several sets of operators at a time: which of them fail by themselves?
Fails = Callable[[Sequence[Sequence[int]]], Sequence[bool]]


def narrow(operators: Sequence[int], fails: Fails) -> list[int]:
    """Return a small part of the operators that fails.

    `operators` fail together. If both halves fail, the first is taken, so that the result stands as early as possible.
    If neither half fails, as with many bugs in fusions, the part is narrowed from both ends, and operators that are not
    needed are removed.
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
    """Narrow a part that needs operators on both sides of `middle`: find the latest beginning and the earliest end that
    still fail.
    """
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
    """Remove operators that are not needed: neighbours in a program may have nothing to do with each other."""

    def left(chosen: Collection[int]) -> Collection[int] | None:
        kept = [operator for operator in part if operator in chosen]
        return kept if kept and fails([kept])[0] else None

    return sorted(needed(part, left), key=part.index) if len(part) > 2 else part
