"""The shape of the store's database, as numbered steps. A step, once released, never changes: add the next one."""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE cases (id TEXT PRIMARY KEY, body TEXT NOT NULL, created TEXT NOT NULL)",
        "CREATE TABLE bugs (id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, status TEXT NOT NULL,"
        " summary TEXT NOT NULL, first_seen TEXT NOT NULL, last_seen TEXT NOT NULL)",
        "CREATE TABLE findings (id INTEGER PRIMARY KEY, bug TEXT NOT NULL REFERENCES bugs (id),"
        " case_id TEXT NOT NULL REFERENCES cases (id), target TEXT NOT NULL, verdict TEXT NOT NULL,"
        " execution TEXT NOT NULL, created TEXT NOT NULL, UNIQUE (bug, case_id, target))",
    ),
)

SCHEMA = len(MIGRATIONS)
