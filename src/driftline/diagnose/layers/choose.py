"""Choose the values to look at (the ends of blocks, all values, or those inside one block), and how many in one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from driftline.diagnose.layers.match import Pair
from driftline.programs.taps.scopes import block

BLOCKS = 32  # ends of blocks that are looked at
MOST = 400  # values that are looked at in all
TOGETHER = 1_500_000  # elements that are looked at in one run; for each the shadow keeps its samples


def ends_of_blocks(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the last value of each numbered module, if the program has such modules. Otherwise divide the program into
    equal stretches, and return from each the value where the fewest values are alive.
    """
    named = [list(group) for name, group in groupby(pairs, lambda pair: block(pair.tap.scope)) if name]
    ends = [group[-1] for group in _merged(named)]
    if len(ends) >= 2:
        return thinned(ends, BLOCKS)
    stretch = max(1, -(-len(pairs) // BLOCKS), min(8, len(pairs) // 4))
    parts = [pairs[begin : begin + stretch] for begin in range(0, len(pairs), stretch)]
    return [min(reversed(part), key=lambda pair: pair.tap.alive) for part in parts]


def _merged(groups: list[list[Pair]]) -> list[list[Pair]]:
    """Merge the groups of each block, since values of no block may stand between the values of a block."""
    found: dict[str, list[Pair]] = {}
    for group in groups:
        found.setdefault(block(group[0].tap.scope), []).extend(group)
    return sorted(found.values(), key=lambda group: group[-1].number)


def thinned(pairs: Sequence[Pair], most: int) -> list[Pair]:
    """Return at most `most` pairs, evenly spread, including the last."""
    if len(pairs) <= most:
        return list(pairs)
    return [pairs[(number + 1) * len(pairs) // most - 1] for number in range(most)]


def chunks(pairs: Sequence[Pair], elements: int = TOGETHER) -> Iterator[list[Pair]]:
    """Yield runs of neighbouring pairs with at most `elements` elements in all. A larger value is yielded alone."""
    now: list[Pair] = []
    size = 0
    for pair in pairs:
        own = _size(pair, pairs)
        if now and size + own > elements:
            yield now
            now, size = [], 0
        now.append(pair)
        size += own
    if now:
        yield now


def _size(pair: Pair, pairs: Sequence[Pair]) -> int:
    """Return the number of elements of a value. If it depends on the values of the inputs, return the largest known
    size.
    """
    known = pair.tap.size
    return known if known is not None else max((p.tap.size or 1 for p in pairs), default=1)
