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
    (
        "CREATE TABLE hunts (id INTEGER PRIMARY KEY, plan TEXT NOT NULL, environment TEXT NOT NULL,"
        " started TEXT NOT NULL, finished TEXT NOT NULL, seconds REAL NOT NULL)",
        "CREATE TABLE turns (hunt INTEGER NOT NULL REFERENCES hunts (id), lane TEXT NOT NULL, number INTEGER NOT NULL,"
        " body TEXT NOT NULL, PRIMARY KEY (hunt, lane, number))",
        "CREATE TABLE suspects (id INTEGER PRIMARY KEY, hunt INTEGER NOT NULL REFERENCES hunts (id),"
        " lane TEXT NOT NULL, turn INTEGER NOT NULL, body TEXT NOT NULL, state TEXT NOT NULL, bug TEXT NOT NULL)",
        "CREATE INDEX suspects_waiting ON suspects (hunt, state)",
    ),
    (
        "CREATE TABLE reductions (bug TEXT PRIMARY KEY REFERENCES bugs (id), body TEXT NOT NULL,"
        " created TEXT NOT NULL)",
        "CREATE TABLE answers (key TEXT PRIMARY KEY, body TEXT NOT NULL)",
    ),
    (
        "CREATE TABLE audits (id INTEGER PRIMARY KEY, plan TEXT NOT NULL, started TEXT NOT NULL,"
        " finished TEXT NOT NULL, seconds REAL NOT NULL)",
        "CREATE TABLE audit_rules (audit INTEGER NOT NULL REFERENCES audits (id), step TEXT NOT NULL,"
        " rule TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (audit, step, rule))",
    ),
    (
        "CREATE TABLE diagnoses (bug TEXT NOT NULL REFERENCES bugs (id), step TEXT NOT NULL, body TEXT NOT NULL,"
        " created TEXT NOT NULL, PRIMARY KEY (bug, step))",
    ),
)

SCHEMA = len(MIGRATIONS)
