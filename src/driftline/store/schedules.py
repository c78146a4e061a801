"""The store's tables of hunts among schedules: the plan of each, and its finished batches, so that a killed hunt can be
resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from driftline.core.text import to_json
from driftline.core.wire import encode
from driftline.store.run_names import split_run_name, with_run_name
from driftline.store.store import Store, now


@dataclass(frozen=True)
class BatchBody:
    """The results of one batch of schedules."""

    outcomes: Mapping[str, int] = field(default_factory=dict)  # `right`, or the kind of failure -> schedules
    steps: int = 0  # that were taken
    refused: int = 0  # steps that TVM refused
    bugs: Mapping[str, int] = field(default_factory=dict)  # the bug -> sightings
    unconfirmed: int = 0  # failures that did not come back in a fresh process
    functions: Mapping[str, int] = field(default_factory=dict)
    primitives: Mapping[str, int] = field(default_factory=dict)  # taken


@dataclass(frozen=True)
class ScheduleHuntEntry:
    """One hunt among schedules: its plan and its times."""

    id: int
    plan: Mapping[str, Any]
    started: str
    finished: str  # empty while it runs, or when it was killed
    seconds: float


class ScheduleLog:
    """The hunts among schedules of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, plan: Mapping[str, Any]) -> ScheduleHuntEntry:
        with self._store.transaction() as database:
            row = database.execute(
                "INSERT INTO schedule_hunts (plan, started, finished, seconds) VALUES (?, ?, '', 0)",
                (to_json(with_run_name(plan)), now()),
            )
        return self._entries("WHERE id = ?", int(row.lastrowid or 0))[0]

    def hunts(self) -> list[ScheduleHuntEntry]:
        return self._entries("ORDER BY id")

    def unfinished(self) -> ScheduleHuntEntry | None:
        return next(iter(self._entries("WHERE finished = '' ORDER BY id DESC LIMIT 1")), None)

    def keep(self, hunt: ScheduleHuntEntry, number: int, body: BatchBody, seconds: float) -> None:
        """Store a finished batch, with the time that the hunt has run: a killed hunt could not store it later."""
        with self._store.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO schedule_batches VALUES (?, ?, ?)",
                (hunt.id, number, to_json(encode(BatchBody, body))),
            )
            database.execute("UPDATE schedule_hunts SET seconds = ? WHERE id = ?", (seconds, hunt.id))

    def batches(self, hunt: ScheduleHuntEntry) -> dict[int, BatchBody]:
        rows = self._store.query("SELECT number, body FROM schedule_batches WHERE hunt = ? ORDER BY number", (hunt.id,))
        held = {n: self._store.sound_json(text, f"Batch {n} of schedules", BatchBody) for n, text in rows}
        return {number: body for number, body in held.items() if body is not None}

    def finish(self, hunt: ScheduleHuntEntry, seconds: float) -> None:
        with self._store.transaction() as database:
            database.execute(
                "UPDATE schedule_hunts SET seconds = ?, finished = ? WHERE id = ?", (seconds, now(), hunt.id)
            )

    def _entries(self, which: str, *values: object) -> list[ScheduleHuntEntry]:
        columns = "id, plan, started, finished, seconds"
        rows = self._store.query(f"SELECT {columns} FROM schedule_hunts {which}", tuple(values))
        plans = [self._store.sound_json(row[1], f"The plan of schedule hunt {row[0]}") for row in rows]
        return [
            ScheduleHuntEntry(row[0], split_run_name(plan)[0], *row[2:]) for row, plan in zip(rows, plans, strict=True)
        ]
