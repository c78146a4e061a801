"""The store's tables of reductions: the result of each, and the answer to every question of the search.

Answers are written as they come, so that a reduction that was killed goes on without asking again.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from driftline.core.text import to_json
from driftline.store.store import Store, now


class Reductions:
    """The last reduction of each bug."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def save(self, bug_id: str, body: dict[str, Any]) -> None:
        with self._store.transaction() as database:
            database.execute("INSERT OR REPLACE INTO reductions VALUES (?, ?, ?)", (bug_id, to_json(body), now()))

    def of(self, bug_id: str) -> dict[str, Any] | None:
        """Return the stored reduction of a bug, or None if there is none."""
        rows = self._store.query("SELECT body FROM reductions WHERE bug = ?", (bug_id,))
        held = self._store.sound_json(rows[0][0], f"The reduction of {bug_id}") if rows else None
        return held if isinstance(held, dict) else None


class Answers(MutableMapping[str, dict[str, Any]]):
    """A persistent memo: answers by a hash of everything that they depend on."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getitem__(self, key: str) -> dict[str, Any]:
        rows = self._store.query("SELECT body FROM answers WHERE key = ?", (key,))
        if not rows:
            raise KeyError(key)
        found = self._store.sound_json(rows[0][0], f"The answer {key[:12]}")
        if not isinstance(found, dict):
            raise KeyError(key)  # the caller computes it again
        return found

    def __setitem__(self, key: str, value: dict[str, Any]) -> None:
        with self._store.transaction() as database:
            database.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, to_json(value)))

    def __delitem__(self, key: str) -> None:
        with self._store.transaction() as database:
            database.execute("DELETE FROM answers WHERE key = ?", (key,))

    def __iter__(self) -> Iterator[str]:
        return iter([row[0] for row in self._store.query("SELECT key FROM answers")])

    def __len__(self) -> int:
        return int(self._store.query("SELECT COUNT(*) FROM answers")[0][0])
