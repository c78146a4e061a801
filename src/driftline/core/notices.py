"""Lines for people about slow work that nobody asked for by name, such as bringing an old store up to date.

Nothing is said until somebody listens: the command line shows them on stderr.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_listeners: list[Callable[[str], None]] = []


def listen(listener: Callable[[str], None]) -> None:
    """Hear every notice from now on; the same listener twice is one."""
    if listener not in _listeners:
        _listeners.append(listener)


def notice(line: str) -> None:
    for listener in _listeners:
        listener(line)


class Countdown:
    """How far a long work is, said now and then: not at all where it is done in a moment."""

    FIRST, EVERY = 1.0, 5.0  # seconds

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._next = time.monotonic() + self.FIRST

    def step(self) -> None:
        self._done += 1
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self.EVERY
            notice(f"{self._what}: {min(self._done, self._total):,} of {self._total:,}")
