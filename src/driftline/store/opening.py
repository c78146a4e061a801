"""Checks the files and the schema of a store's database before it is used, since someone else may have made it.

SQLite executes parts of a schema: triggers change rows while others are written; views, generated columns and
expressions in constraints and indexes may compute without end. So the tables and indexes must be exactly those that
Driftline makes, or compute nothing, and triggers, views and virtual tables are refused.

The connection is the second guard (`guard`): whatever the schema holds, no trigger or view runs, nothing is attached,
and no value is longer than Driftline writes. `PRAGMA trusted_schema=OFF` is set where SQLite then still accepts the
JSON functions in Driftline's own indexes, which SQLite 3.40 does not.
"""

from __future__ import annotations

import re
import sqlite3
import stat
from contextlib import closing
from functools import cache
from pathlib import Path

from driftline.core.errors import StoreError
from driftline.core.quoting import one_line
from driftline.store.schema import STATEMENTS

DATABASE_FILES = ("store.db", "store.db-wal", "store.db-shm", "store.db-journal")
_MADE = re.compile(r"CREATE (TABLE|INDEX) (\w+) ?(.*)", re.DOTALL)
_ONLY_COLUMNS = re.compile(r"CREATE TABLE \w+ ?\([\w ,()]*\)", re.ASCII)
_COMPUTES = re.compile(r"\b(CHECK|GENERATED|AS|DEFAULT|COLLATE|ON)\b", re.IGNORECASE)  # or changes other rows
_LONGEST = 256 << 20  # bytes of a value; SQLite's own limit is four times as much
_DENIED = (
    sqlite3.SQLITE_ATTACH,
    sqlite3.SQLITE_CREATE_TRIGGER,
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER,
    sqlite3.SQLITE_CREATE_VIEW,
    sqlite3.SQLITE_CREATE_TEMP_VIEW,
    sqlite3.SQLITE_CREATE_VTABLE,
)
_PROBE = (
    "CREATE TABLE t (x TEXT)",
    "CREATE INDEX i ON t (CASE WHEN json_valid(x) THEN json_extract(x, '$.a') END)",
    "PRAGMA trusted_schema=OFF",
    "INSERT INTO t VALUES ('{}')",
    "SELECT x FROM t WHERE json_extract(x, '$.a') = 1",
)
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema"


def require_plain_files(path: Path) -> None:
    """Refuse a store whose database files include a link, a pipe or a device."""
    for name in DATABASE_FILES:
        try:
            state = (path / name).lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        if not stat.S_ISREG(state.st_mode):
            what = "a symbolic link" if stat.S_ISLNK(state.st_mode) else "not a plain file"
            raise StoreError(
                f"{path / name} is {what}, and Driftline does not open it. Remove it, or name another store."
            )


def guard(database: sqlite3.Connection) -> None:
    """Set up a connection so that it executes no code of the schema."""
    database.set_authorizer(_authorize)
    database.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 0)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    if _works_untrusted():
        database.execute("PRAGMA trusted_schema=OFF")


def _authorize(action: int, first: str | None, second: str | None, base: str | None, source: str | None) -> int:
    """SQLite's authorizer: deny accesses by a trigger or view (`source`), and creating or attaching anything."""
    return sqlite3.SQLITE_DENY if source or action in _DENIED else sqlite3.SQLITE_OK


@cache
def _works_untrusted() -> bool:
    """True if this SQLite allows JSON functions in an index with an untrusted schema."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as probe:
        try:
            for statement in _PROBE:
                probe.execute(statement)
        except sqlite3.Error:
            return False
    return True


def require_own_schema(database: sqlite3.Connection, path: Path) -> None:
    """Refuse a database whose schema could run code of whoever made it."""
    guard(database)
    for kind, name, table, sql in database.execute(_SCHEMA).fetchall():
        if not _is_harmless(str(kind), str(name), str(table), sql):
            raise StoreError(
                f"{path}/store.db brings a {one_line(str(kind), 20)} {one_line(str(name), 60)!r} that Driftline did not"
                " make, and that would run when the store is used. The store was not opened; name another with --store."
            )


def _is_harmless(kind: str, name: str, table: str, sql: object) -> bool:
    if sql is None and kind == "index":
        return True  # SQLite made the index, for a key
    text = _plain(str(sql))
    if name in _own() or table in _own():
        return _own().get(name) == text or (bool(_ONLY_COLUMNS.fullmatch(text)) and not _COMPUTES.search(text))
    # Other tables, such as that of `sqlite3 .recover`, are never read.
    return kind in ("table", "index") and not text.upper().startswith("CREATE VIRTUAL")


@cache
def _own() -> dict[str, str]:
    """Return the statements that create the store's tables and indexes, by name."""
    made = (_MADE.match(_plain(statement)) for statement in STATEMENTS)
    return {found[2]: found[0] for found in made if found}


def _plain(sql: str) -> str:
    """Return the statement with single spaces, without quotes, as `sqlite3 .recover` and SQLite itself may write it."""
    return re.sub(r"\bCREATE (TABLE|INDEX) IF NOT EXISTS\b", r"CREATE \1", " ".join(sql.split())).replace('"', "")
