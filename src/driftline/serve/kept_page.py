"""Caches pages that are slow to build from a large store, until the store changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

# A file system's clock may stand still for some milliseconds: a change within this time could leave the stamp as it is.
SETTLED = 2_000_000_000

Stamp = tuple[tuple[int, int, int], ...]


class KeptPage:
    """A cached page of a store. One request builds it while the others wait for the result."""

    def __init__(self, store: Path, make: Callable[[], str]) -> None:
        self._store = store
        self._make = make
        self._making = threading.Lock()
        self._stamp: Stamp | None = None
        self._text = ""

    def text(self) -> str:
        """Return the page for the store's present content."""
        with self._making:
            stamp = stamp_of(self._store)
            if stamp is None or stamp != self._stamp:
                self._stamp = None  # if making it fails, the next request tries again
                self._text = self._make()
                self._stamp = stamp
            return self._text


def stamp_of(store: Path) -> Stamp | None:
    """Return a value that changes with every change of the store's database, or None if the database changed so
    recently that a further change might not show."""
    found = []
    for name in ("store.db", "store.db-wal"):
        try:
            seen = (store / name).stat()
        except OSError:
            continue
        if seen.st_size:  # an empty write-ahead log comes and goes with every reader
            found.append((seen.st_ino, seen.st_size, seen.st_mtime_ns))
    if not found or max(moment for *_, moment in found) > time.time_ns() - SETTLED:
        return None
    return tuple(found)
