"""Stores that are only read: the sources of a merge, and a store that is pushed.

Nothing is written into their folders. A store that a hunt is writing is read as it was when the reading began (SQLite's
write-ahead log).
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from driftline.core.errors import StoreError
from driftline.store.objects import readable_copy
from driftline.store.opening import require_own_schema, require_plain_files
from driftline.store.schema import check_version
from driftline.store.store import explained


class SourceStore:
    """A store that is open for reading only."""

    def __init__(
        self, path: Path, database: sqlite3.Connection, *, unguarded: bool, state: tuple[int, int, int]
    ) -> None:
        self.path = path
        self.database = database
        self._unguarded = unguarded  # is it read without locks, since nobody had it open?
        self._state = state  # of the file, before it was opened

    def disturbed(self) -> bool:
        """True if the store was written while it was read without locks; what was read may then be inconsistent."""
        return self._unguarded and ((self.path / "store.db-wal").exists() or _state(self.path) != self._state)


def _state(path: Path) -> tuple[int, int, int]:
    """Return a value that changes when the database is written or replaced."""
    state = (path / "store.db").stat()
    return state.st_ino, state.st_size, state.st_mtime_ns


def require_source(path: Path) -> None:
    """Raise if the folder holds no store, or a store of another layout."""
    with open_source(path):
        pass


@contextlib.contextmanager
def open_source(path: Path) -> Iterator[SourceStore]:
    if not (path / "store.db").is_file():
        raise StoreError(f"There is no store in {path}.")
    require_plain_files(path)
    with contextlib.ExitStack() as stack:
        with explained(path):
            state = _state(path)
            database, unguarded = _database(path, stack)
            require_own_schema(database, path)
            check_version(database, path)
            database.text_factory = _text
            database.execute("BEGIN")  # one moment for all that is read
            database.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone()
        yield SourceStore(path, database, unguarded=unguarded, state=state)


def _database(path: Path, stack: contextlib.ExitStack) -> tuple[sqlite3.Connection, bool]:
    """Open the database for reading; the flag is True if it is read without locks, which would leave files behind."""
    place, how = path, "immutable=1"
    if (path / "store.db-wal").exists():
        if (path / "store.db-shm").exists():
            how = "mode=ro"
        else:  # a copy of a store that was in use: its log has to be read, and SQLite would write an index of it
            place, how = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="driftline-store-"))), "mode=rw"
            readable_copy(path, place)
    database = _connected(place / "store.db", how)
    stack.callback(database.close)
    return database, how == "immutable=1"


def _connected(file: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?{how}", uri=True, isolation_level=None, timeout=60)


def _text(held: bytes) -> str:
    """Decode bytes that may not be valid text, so that reading continues; the row is found to be damaged later."""
    return held.decode("utf-8", "surrogateescape")
