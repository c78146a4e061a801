"""Bringing a store of an older release into the present form: one transaction, all of it or nothing.

Killed in the middle, it leaves the older store as it was, and the next one to open it begins anew.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

from driftline.core.notices import Countdown
from driftline.store.migrations import MIGRATIONS, RENAME_BUGS, SCHEMA
from driftline.store.renaming import newer_body, newer_verdict, rename_bugs


def migrate(database: sqlite3.Connection, path: Path, version: Callable[[], int]) -> None:
    """Take the steps that are missing. `version` says how many were taken, and refuses a newer store."""
    if version() == SCHEMA:
        return
    database.execute("BEGIN IMMEDIATE")  # another process may be doing the same: look again under the lock
    try:
        progress = _progress(database, path)

        def counted(verdict: str, execution: str) -> str:
            progress.step()
            return newer_verdict(verdict, execution)

        database.create_function("newer_verdict", 2, counted)
        database.create_function("newer_body", 1, newer_body)
        for number in range(version(), SCHEMA):
            for statement in MIGRATIONS[number]:
                if statement == RENAME_BUGS:
                    rename_bugs(database, path.resolve() / "objects", progress.step)
                else:
                    database.execute(statement)
        database.execute(f"PRAGMA user_version = {SCHEMA}")
        database.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # a full disk has ended the transaction already
            database.execute("ROLLBACK")
        raise


def _progress(database: sqlite3.Connection, path: Path) -> Countdown:
    """Findings are gone through twice: for their evidence, and for the names of their bugs."""
    tables = database.execute("SELECT COUNT(*) FROM sqlite_schema WHERE name = 'findings'").fetchone()[0]
    findings = database.execute("SELECT COUNT(*) FROM findings").fetchone()[0] if tables else 0
    what = (
        f"The store {path} is of an older Driftline and is brought up to date, once"
        " (if this is interrupted it stays as it was); steps done"
    )
    return Countdown(what, 2 * findings)
