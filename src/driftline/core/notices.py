"""Messages to the user about slow work that was not requested by name, such as upgrading an old store.

They are dropped unless a listener is registered: the command line shows them on stderr.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_listeners: list[Callable[[str], None]] = []


def listen(listener: Callable[[str], None]) -> None:
    """Register a listener for all later notices; registering it twice has no further effect."""
    if listener not in _listeners:
        _listeners.append(listener)


def notice(line: str) -> None:
    """Send a line to all listeners."""
    for listener in _listeners:
        listener(line)


class Countdown:
    """Sends notices about the progress of long work every few seconds; none if the work ends at once."""

    FIRST, EVERY = 1.0, 5.0  # seconds

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._next = time.monotonic() + self.FIRST

    def step(self) -> None:
        self._done += 1
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self.EVERY
            notice(f"{self._what}: {min(self._done, self._total):,} of {self._total:,}")
