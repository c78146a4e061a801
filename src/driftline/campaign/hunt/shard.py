"""A shard: one of several parts of a hunt, each on a machine of its own, that need not know of each other.

The programs of an arm are numbered under a seed, and the program of a number is the same wherever it is made. Shard k
of n asks for the numbers k-1, k-1+n, k-1+2n, ... of every arm: no program is made by two shards, and no number is left
out. Which arms a shard asks for next it learns from its own programs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from driftline.core.errors import DriftlineError


@dataclass(frozen=True)
class Shard:
    """One of `of` shards, counted from 1."""

    number: int = 1
    of: int = 1

    @staticmethod
    def parse(text: str) -> Shard:
        """As in `3/8`; nothing is all of it."""
        if not text:
            return WHOLE
        found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
        if not found or not 1 <= int(found[1]) <= int(found[2]):
            raise DriftlineError(
                f"{text!r} is no shard; write which one of how many, counted from 1: 3/8 is the third of eight."
            )
        return Shard(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}" if self.of > 1 else ""

    def numbered(self, count: int) -> int:
        """The number of this shard's next program of an arm, after `count` of them."""
        return count * self.of + self.number - 1

    def seeded(self, seed: int) -> str:
        """What random choices of this shard begin with; those of a whole hunt begin with the seed alone."""
        return f"{seed} {self}".strip()


WHOLE = Shard()
