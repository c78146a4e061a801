"""The tables and indexes of a store, and the number of their layout. A store of another layout is refused."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from driftline.core.errors import StoreError

SCHEMA = 10  # the number of the layout, which a database keeps as its `user_version`; another layout gets another one

STATEMENTS = (
    "CREATE TABLE cases (id TEXT PRIMARY KEY, body TEXT NOT NULL, created TEXT NOT NULL)",
    "CREATE TABLE bugs (id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, status TEXT NOT NULL,"
    " summary TEXT NOT NULL, first_seen TEXT NOT NULL, last_seen TEXT NOT NULL)",
    "CREATE TABLE findings (id INTEGER PRIMARY KEY, bug TEXT NOT NULL REFERENCES bugs (id),"
    " case_id TEXT NOT NULL REFERENCES cases (id), target TEXT NOT NULL, verdict TEXT NOT NULL,"
    " execution TEXT NOT NULL, created TEXT NOT NULL, UNIQUE (bug, case_id, target))",
    "CREATE TABLE hunts (id INTEGER PRIMARY KEY, plan TEXT NOT NULL, environment TEXT NOT NULL,"
    " started TEXT NOT NULL, finished TEXT NOT NULL, seconds REAL NOT NULL)",
    "CREATE TABLE turns (hunt INTEGER NOT NULL REFERENCES hunts (id), lane TEXT NOT NULL, number INTEGER NOT NULL,"
    " body TEXT NOT NULL, PRIMARY KEY (hunt, lane, number))",
    "CREATE TABLE suspects (id INTEGER PRIMARY KEY, hunt INTEGER NOT NULL REFERENCES hunts (id),"
    " lane TEXT NOT NULL, turn INTEGER NOT NULL, body TEXT NOT NULL, state TEXT NOT NULL, bug TEXT NOT NULL)",
    "CREATE INDEX suspects_waiting ON suspects (hunt, state)",
    "CREATE TABLE reductions (bug TEXT PRIMARY KEY REFERENCES bugs (id), body TEXT NOT NULL, created TEXT NOT NULL)",
    "CREATE TABLE answers (key TEXT PRIMARY KEY, body TEXT NOT NULL)",
    "CREATE TABLE audits (id INTEGER PRIMARY KEY, plan TEXT NOT NULL, started TEXT NOT NULL,"
    " finished TEXT NOT NULL, seconds REAL NOT NULL)",
    "CREATE TABLE audit_rules (audit INTEGER NOT NULL REFERENCES audits (id), step TEXT NOT NULL,"
    " rule TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (audit, step, rule))",
    "CREATE TABLE diagnoses (bug TEXT NOT NULL REFERENCES bugs (id), step TEXT NOT NULL, body TEXT NOT NULL,"
    " created TEXT NOT NULL, PRIMARY KEY (bug, step))",
    # Indexes for the filters of lists, and from a case to its bug. A damaged fingerprint must not cause an error.
    "CREATE INDEX bugs_by_compiler ON bugs"
    " (CASE WHEN json_valid(fingerprint) THEN json_extract(fingerprint, '$.backend') END,"
    " CASE WHEN json_valid(fingerprint) THEN json_extract(fingerprint, '$.kind') END)",
    "CREATE INDEX bugs_by_kind ON bugs"
    " (CASE WHEN json_valid(fingerprint) THEN json_extract(fingerprint, '$.kind') END)",
    "CREATE INDEX bugs_by_status ON bugs (status)",
    "CREATE INDEX bugs_by_first_seen ON bugs (first_seen)",
    "CREATE INDEX findings_by_case ON findings (case_id)",
    # A list needs the release of every finding: read off the index, not out of 200,000 logs.
    "CREATE INDEX findings_by_release ON findings"
    " (bug, CASE WHEN json_valid(execution) THEN json_extract(execution, '$.version') END)",
    # Requests to language models with answers, their requirements of rules, and the rules as they were shown.
    "CREATE TABLE model_answers (key TEXT PRIMARY KEY, request TEXT NOT NULL, answer TEXT NOT NULL,"
    " created TEXT NOT NULL)",
    "CREATE TABLE requirements (rule TEXT NOT NULL, source TEXT NOT NULL, prompt INTEGER NOT NULL,"
    " model TEXT NOT NULL, body TEXT NOT NULL, created TEXT NOT NULL, PRIMARY KEY (rule, source, prompt, model))",
    "CREATE TABLE shown_rules (rule TEXT NOT NULL, release TEXT NOT NULL, body TEXT NOT NULL,"
    " PRIMARY KEY (rule, release))",
    "CREATE TABLE schedule_hunts (id INTEGER PRIMARY KEY, plan TEXT NOT NULL, started TEXT NOT NULL,"
    " finished TEXT NOT NULL, seconds REAL NOT NULL)",
    "CREATE TABLE schedule_batches (hunt INTEGER NOT NULL REFERENCES schedule_hunts (id), number INTEGER NOT NULL,"
    " body TEXT NOT NULL, PRIMARY KEY (hunt, number))",
    # The results of single checks, passes included, to show what was tested.
    "CREATE TABLE checks (program TEXT NOT NULL, target TEXT NOT NULL, name TEXT NOT NULL, form TEXT NOT NULL,"
    " version TEXT NOT NULL, judgement TEXT NOT NULL, runs INTEGER NOT NULL, fails INTEGER NOT NULL,"
    " last TEXT NOT NULL, PRIMARY KEY (program, target))",
)


def make_tables(database: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new database, all or none; refuse a store of another layout."""
    if _version(database):
        check_version(database, path)
        return
    database.execute("BEGIN IMMEDIATE")  # another process may be doing the same: look again under the lock
    try:
        if not _version(database):
            for statement in STATEMENTS:
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {SCHEMA}")
        database.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # a full disk has ended the transaction already
            database.execute("ROLLBACK")
        raise


def check_version(database: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError if the store's layout is not that of this release."""
    if (version := _version(database)) != SCHEMA:
        raise StoreError(
            f"The store {path} was written by another release of Driftline (layout {version}, this release reads"
            f" layout {SCHEMA}); use that release, or name another store with --store."
        )


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])
