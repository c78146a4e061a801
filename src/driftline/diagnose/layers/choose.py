"""Which values to look at: the ends of blocks, all of them, or those inside one block; and how many at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from driftline.diagnose.layers.match import Pair
from driftline.programs.taps.scopes import block

BLOCKS = 32  # ends of blocks that are looked at
MOST = 400  # values that are looked at in all
TOGETHER = 1_500_000  # elements that are looked at in one run; for each the shadow keeps its samples


def ends_of_blocks(pairs: Sequence[Pair]) -> list[Pair]:
    """The last value of each numbered module, where the program has such; else the places where few values are alive,
    one in each of some equal stretches."""
    named = [list(group) for name, group in groupby(pairs, lambda pair: block(pair.tap.scope)) if name]
    ends = [group[-1] for group in _merged(named)]
    if len(ends) >= 2:
        return thinned(ends, BLOCKS)
    stretch = max(1, -(-len(pairs) // BLOCKS), min(8, len(pairs) // 4))
    parts = [pairs[begin : begin + stretch] for begin in range(0, len(pairs), stretch)]
    return [min(reversed(part), key=lambda pair: pair.tap.alive) for part in parts]


def _merged(groups: list[list[Pair]]) -> list[list[Pair]]:
    """One group for each block, though values of no block stand between some of its own."""
    found: dict[str, list[Pair]] = {}
    for group in groups:
        found.setdefault(block(group[0].tap.scope), []).extend(group)
    return sorted(found.values(), key=lambda group: group[-1].number)


def thinned(pairs: Sequence[Pair], most: int) -> list[Pair]:
    """At most so many, evenly spread, the last among them."""
    if len(pairs) <= most:
        return list(pairs)
    return [pairs[(number + 1) * len(pairs) // most - 1] for number in range(most)]


def chunks(pairs: Sequence[Pair], elements: int = TOGETHER) -> Iterator[list[Pair]]:
    """Neighbours, as many as fit. A value that does not fit at all goes alone."""
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
    """A size that depends on the inputs' values is taken for the largest that is known."""
    known = pair.tap.size
    return known if known is not None else max((p.tap.size or 1 for p in pairs), default=1)
