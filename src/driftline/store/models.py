"""The store's tables of language models: every request with its answer, and the requirements that models gave for
rewrite rules.

An answer is written as soon as it arrives, so that no answer is paid for twice, even after a kill.
"""

from __future__ import annotations

from typing import Any

from driftline.core.text import to_json
from driftline.store.store import Store, now


class ModelAnswers:
    """Requests and answers of models, by the key of the request."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, key: str) -> dict[str, Any] | None:
        rows = self._store.query("SELECT answer FROM model_answers WHERE key = ?", (key,))
        found = self._store.sound_json(rows[0][0], f"The model's answer {key[:12]}") if rows else None
        return found if isinstance(found, dict) else None

    def keep(self, key: str, request: dict[str, Any], answer: dict[str, Any]) -> None:
        with self._store.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO model_answers VALUES (?, ?, ?, ?)",
                (key, to_json(request), to_json(answer), now()),
            )

    def __len__(self) -> int:
        return int(self._store.query("SELECT COUNT(*) FROM model_answers")[0][0])


class Requirements:
    """The requirements that models gave for rules. A rule's requirement is asked for again when its source, the prompt
    or the model changes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, rule: str, source: str, prompt: int, model: str) -> dict[str, Any] | None:
        rows = self._store.query(
            "SELECT body FROM requirements WHERE rule = ? AND source = ? AND prompt = ? AND model = ?",
            (rule, source, prompt, model),
        )
        found = self._store.sound_json(rows[0][0], f"The requirement of {rule}") if rows else None
        return found if isinstance(found, dict) else None

    def keep(self, rule: str, source: str, prompt: int, model: str, body: dict[str, Any]) -> None:
        with self._store.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO requirements VALUES (?, ?, ?, ?, ?, ?)",
                (rule, source, prompt, model, to_json(body), now()),
            )


class ShownRules:
    """Rules as they were shown to a model. Which program is found for a rule may depend on the machine's load, so a
    repeated hunt reads the rules from here to send the same requests."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, rule: str, release: str) -> dict[str, Any] | None:
        rows = self._store.query("SELECT body FROM shown_rules WHERE rule = ? AND release = ?", (rule, release))
        found = self._store.sound_json(rows[0][0], f"The rule {rule}") if rows else None
        return found if isinstance(found, dict) else None

    def keep(self, rule: str, release: str, body: dict[str, Any]) -> None:
        with self._store.transaction() as database:
            database.execute("INSERT OR IGNORE INTO shown_rules VALUES (?, ?, ?)", (rule, release, to_json(body)))
