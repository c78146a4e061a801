"""The store's table of explanations: for each bug, the last result of each step (localize, ablate, diagnose)."""

from __future__ import annotations

from typing import Any

from driftline.core.text import to_json
from driftline.store.store import Store, now


class Diagnoses:
    """The explanations of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def save(self, bug_id: str, step: str, body: dict[str, Any]) -> None:
        with self._store.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO diagnoses VALUES (?, ?, ?, ?)", (bug_id, step, to_json(body), now())
            )

    def of(self, bug_id: str, step: str) -> dict[str, Any] | None:
        """Return the stored result of a step for a bug, or None if there is none."""
        rows = self._store.query("SELECT body FROM diagnoses WHERE bug = ? AND step = ?", (bug_id, step))
        held = self._store.sound_json(rows[0][0], f"The {step} of {bug_id}") if rows else None
        return held if isinstance(held, dict) else None
