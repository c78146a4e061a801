"""A cache of the shadow's answers that several targets share: the newest ones, up to a limit.

A check repeats the same few questions. A hunt that runs for days asks new ones and never repeats an old one, so the
cache is limited, and adding an answer costs the same however many there are.
"""

from __future__ import annotations

from collections.abc import Hashable

from driftline.oracle.outputs import ShadowAnswer

MOST = 64  # answers: more than one check needs, with its samples, arithmetics and numbers of runs
ROOM = 256 << 20  # bytes; the newest answer is kept whatever its size


class ShadowCache:
    """The cache: `most` answers of `room` bytes together, the oldest dropped first."""

    def __init__(self, most: int = MOST, room: int = ROOM) -> None:
        self._most, self._room = most, room
        self._answers: dict[Hashable, ShadowAnswer] = {}
        self._bytes = 0

    def get(self, key: Hashable) -> ShadowAnswer | None:
        return self._answers.get(key)

    def keep(self, key: Hashable, answer: ShadowAnswer) -> None:
        """Add an answer, and drop the oldest ones beyond the limits."""
        if old := self._answers.pop(key, None):
            self._bytes -= old.nbytes
        self._answers[key] = answer
        self._bytes += answer.nbytes
        while len(self._answers) > 1 and (self._bytes > self._room or len(self._answers) > self._most):
            self._bytes -= self._answers.pop(next(iter(self._answers))).nbytes
