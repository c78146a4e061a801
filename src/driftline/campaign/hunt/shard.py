"""A shard: one of several parts of a hunt, each run on its own machine without knowledge of the others.

The programs of an arm are numbered under a seed, and a number gives the same program on every machine. Shard k of n
asks for the numbers k-1, k-1+n, k-1+2n, ... of every arm: no program is made by two shards, and no number is left out.
A shard chooses its next arms by the results of its own programs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from driftline.core.errors import DriftlineError


@dataclass(frozen=True)
class Shard:
    """Shard `number` of `of` shards, counted from 1."""

    number: int = 1
    of: int = 1

    @staticmethod
    def parse(text: str) -> Shard:
        """Parse text such as `3/8`; an empty text is the whole hunt."""
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
        """Return the number of this shard's next program of an arm, after `count` of them."""
        return count * self.of + self.number - 1

    def seeded(self, seed: int) -> str:
        """Return the text that seeds the random choices of this shard; for a whole hunt, the seed alone."""
        return f"{seed} {self}".strip()


WHOLE = Shard()
