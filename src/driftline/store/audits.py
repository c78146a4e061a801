"""What the store keeps of audits: their plan, and how far each rule was brought. A rule is written as soon as it is
done, so a killed audit goes on with the next one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftline.core.text import to_json
from driftline.store.store import Store, now


@dataclass(frozen=True)
class AuditEntry:
    """One audit: what was asked for, and when."""

    id: int
    plan: Mapping[str, Any]
    started: str
    finished: str  # empty while it runs, or when it was killed
    seconds: float


class AuditLog:
    """The audits of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, plan: Mapping[str, Any]) -> AuditEntry:
        with self._store.transaction() as database:
            row = database.execute(
                "INSERT INTO audits (plan, started, finished, seconds) VALUES (?, ?, '', 0)", (to_json(plan), now())
            )
        return self._entry(int(row.lastrowid or 0))

    def unfinished(self) -> AuditEntry | None:
        rows = self._store.query("SELECT id FROM audits WHERE finished = '' ORDER BY id DESC LIMIT 1")
        return self._entry(rows[0][0]) if rows else None

    def spent(self, audit: int, seconds: float, *, finished: bool = False) -> None:
        with self._store.transaction() as database:
            database.execute(
                "UPDATE audits SET seconds = ?, finished = ? WHERE id = ?", (seconds, now() if finished else "", audit)
            )

    def keep(self, audit: int, step: str, rule: str, body: Mapping[str, Any]) -> None:
        """What came of one step (`fired`, `perturbed`) with one rule."""
        with self._store.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO audit_rules (audit, step, rule, body) VALUES (?, ?, ?, ?)",
                (audit, step, rule, to_json(body)),
            )

    def kept(self, audit: int, step: str) -> dict[str, dict[str, Any]]:
        rows = self._store.query("SELECT rule, body FROM audit_rules WHERE audit = ? AND step = ?", (audit, step))
        return {rule: json.loads(body) for rule, body in rows}

    def _entry(self, number: int) -> AuditEntry:
        row = self._store.query("SELECT id, plan, started, finished, seconds FROM audits WHERE id = ?", (number,))[0]
        return AuditEntry(row[0], json.loads(row[1]), row[2], row[3], row[4])
