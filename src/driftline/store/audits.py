"""The store's tables of audits: the plan, the progress of each rule, requests and findings. Every row is written as
soon as it is known, so that a killed audit can be resumed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from driftline.core.text import to_json
from driftline.store.run_names import split_run_name, with_run_name
from driftline.store.store import Store, now

LISTED = "listed"  # the step that keeps every rule of a compiler, also rules outside of the audit
REACHED = "reached"  # the step that keeps the progress of each audited rule


@dataclass(frozen=True)
class AuditEntry:
    """One audit: its plan, its times and its name."""

    id: int
    plan: Mapping[str, Any]
    started: str
    finished: str  # empty while it runs, or when it was killed
    seconds: float
    run: str = ""  # its name, which stays when stores are merged


class AuditLog:
    """The audits of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, plan: Mapping[str, Any]) -> AuditEntry:
        with self._store.transaction() as database:
            row = database.execute(
                "INSERT INTO audits (plan, started, finished, seconds) VALUES (?, ?, '', 0)",
                (to_json(with_run_name(plan)), now()),
            )
        return self._entry(int(row.lastrowid or 0))

    def unfinished(self) -> AuditEntry | None:
        rows = self._store.query("SELECT id FROM audits WHERE finished = '' ORDER BY id DESC LIMIT 1")
        return self._entry(rows[0][0]) if rows else None

    def entry(self, number: int) -> AuditEntry | None:
        """Return the audit with this number, or None."""
        rows = self._store.query("SELECT id FROM audits WHERE id = ?", (number,))
        return self._entry(number) if rows else None

    def number_of(self, run: str) -> int:
        """Return the present number of the audit with the name `run`, or 0 if there is none."""
        return next((one.id for one in self.entries() if run and one.run == run), 0)

    def entries(self) -> list[AuditEntry]:
        """All audits, the oldest first."""
        return [self._entry(number) for (number,) in self._store.query("SELECT id FROM audits ORDER BY id")]

    def _entry(self, number: int) -> AuditEntry:
        row = self._store.query("SELECT id, plan, started, finished, seconds FROM audits WHERE id = ?", (number,))[0]
        plan, run = split_run_name(self._store.sound_json(row[1], f"The plan of audit {row[0]}"))
        return AuditEntry(row[0], plan, row[2], row[3], row[4], run)


class AuditMemory:
    """The results that one audit stores for each step (`fired`, `perturbed`...) and subject (a rule, model or bug).
    Every write also updates the audit's running time, since a killed audit cannot write it at the end."""

    def __init__(self, store: Store, entry: AuditEntry) -> None:
        self._store = store
        self._audit = entry.id
        self._begun = time.monotonic() - entry.seconds

    @property
    def seconds(self) -> float:
        """Seconds that the audit has run, including the time before it was interrupted."""
        return time.monotonic() - self._begun

    def keep(self, step: str, subject: str, body: Mapping[str, Any]) -> None:
        self.keep_all(step, {subject: body})

    def keep_all(self, step: str, bodies: Mapping[str, Mapping[str, Any]]) -> None:
        """Store the results of several subjects for one step, all or none."""
        with self._store.transaction() as database:
            database.executemany(
                "INSERT OR REPLACE INTO audit_rules (audit, step, rule, body) VALUES (?, ?, ?, ?)",
                [(self._audit, step, subject, to_json(body)) for subject, body in bodies.items()],
            )
            database.execute("UPDATE audits SET seconds = ? WHERE id = ?", (self.seconds, self._audit))

    def kept(self, step: str) -> dict[str, dict[str, Any]]:
        rows = self._store.query(
            "SELECT rule, body FROM audit_rules WHERE audit = ? AND step = ? ORDER BY rowid", (self._audit, step)
        )
        held = {subject: self._store.sound_json(body, f"The {step} of {subject}") for subject, body in rows}
        return {subject: body for subject, body in held.items() if isinstance(body, dict)}

    def close(self, *, finished: bool) -> None:
        with self._store.transaction() as database:
            database.execute(
                "UPDATE audits SET seconds = ?, finished = ? WHERE id = ?",
                (self.seconds, now() if finished else "", self._audit),
            )
