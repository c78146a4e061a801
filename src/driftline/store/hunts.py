"""What the store keeps of hunts: their plan, their turns with statistics, and the programs that still wait for triage.

A *lane* is the sequence of turns of one target; a turn is a batch of programs run on it. A turn and its suspects are
written in one transaction, and a suspect is settled in one: killed at any moment, a hunt goes on where it was.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.text import to_json
from driftline.store.store import Store, now


@dataclass(frozen=True)
class Hunt:
    """One hunt: what was asked for, and the machine it ran on."""

    id: int
    plan: Mapping[str, Any]  # seed, targets, generators, inputs, budget, programs
    environment: Mapping[str, Any]  # versions by target, python, platform, driftline
    started: str
    finished: str  # empty while it runs, or when it was killed
    seconds: float


@dataclass(frozen=True)
class Turn:
    """A batch of programs on one target.

    `body`: {"seconds": float, "programs": int,
             "counts": {"pass" | "fail" | "rejected" | "inconclusive" | "invalid" | "nothing" | "internal": int},
             "reasons": {judgement: {reason: int}}, "coverage": {"operator dtype": {judgement: int}},
             "arms": [[generator, arm, programs, reward], ...],
             "interesting": [graphs worth changing], "keys": [what was new about failures]}
    """

    lane: str
    number: int
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Suspect:
    """A program that seemed to fail in a turn and is to be looked at alone."""

    id: int
    lane: str
    turn: int
    body: Mapping[str, Any]


class HuntLog:
    """The hunts of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, plan: Mapping[str, Any], environment: Mapping[str, Any]) -> Hunt:
        with self._store.transaction() as database:
            row = database.execute(
                "INSERT INTO hunts (plan, environment, started, finished, seconds) VALUES (?, ?, ?, '', 0)",
                (to_json(plan), to_json(environment), now()),
            )
        return self.hunt(int(row.lastrowid or 0))

    def hunts(self) -> list[Hunt]:
        """All hunts, the oldest first."""
        return [_hunt(row) for row in self._store.query(f"SELECT {_HUNT} FROM hunts ORDER BY id")]

    def hunt(self, number: int) -> Hunt:
        rows = self._store.query(f"SELECT {_HUNT} FROM hunts WHERE id = ?", (number,))
        if not rows:
            raise DriftlineError(f"There is no hunt {number} in the store {self._store.path}.")
        return _hunt(rows[0])

    def unfinished(self) -> list[Hunt]:
        """Hunts that did not come to their end, the last one first."""
        return [hunt for hunt in reversed(self.hunts()) if not hunt.finished]

    def finish(self, hunt: Hunt) -> None:
        with self._store.transaction() as database:
            database.execute("UPDATE hunts SET finished = ? WHERE id = ?", (now(), hunt.id))

    def reopen(self, hunt: Hunt) -> None:
        """It gets more time: what was left unexamined waits again."""
        with self._store.transaction() as database:
            database.execute("UPDATE hunts SET finished = '' WHERE id = ?", (hunt.id,))
            database.execute(
                "UPDATE suspects SET state = 'waiting' WHERE hunt = ? AND state = 'unexamined'", (hunt.id,)
            )

    def spend(self, hunt: Hunt, seconds: float) -> None:
        """How long it has run in all, over every resumption."""
        with self._store.transaction() as database:
            database.execute("UPDATE hunts SET seconds = ? WHERE id = ?", (seconds, hunt.id))

    def add_turn(self, hunt: Hunt, turn: Turn, suspects: Sequence[Mapping[str, Any]]) -> None:
        """A turn is done. Written once: a turn that is already there stays as it is."""
        with self._store.transaction() as database:
            done = database.execute(
                "INSERT OR IGNORE INTO turns VALUES (?, ?, ?, ?)",
                (hunt.id, turn.lane, turn.number, to_json(turn.body)),
            )
            if done.rowcount:
                database.executemany(
                    "INSERT INTO suspects (hunt, lane, turn, body, state, bug) VALUES (?, ?, ?, ?, 'waiting', '')",
                    [(hunt.id, turn.lane, turn.number, to_json(body)) for body in suspects],
                )

    def turns(self, hunt: Hunt) -> Iterator[Turn]:
        """Every turn of a hunt, by lane and number."""
        rows = self._store.query(
            "SELECT lane, number, body FROM turns WHERE hunt = ? ORDER BY lane, number", (hunt.id,)
        )
        for lane, number, body in rows:
            yield Turn(lane, number, json.loads(body))

    def waiting(self, hunt: Hunt, lane: str, *, new: bool, most: int = -1) -> list[Suspect]:
        """Suspects of a lane that nobody has looked at: those that seem new, or those that do not."""
        rows = self._store.query(
            "SELECT id, lane, turn, body FROM suspects WHERE hunt = ? AND state = 'waiting' AND lane = ?"
            " AND json_extract(body, '$.new') = ? ORDER BY id LIMIT ?",
            (hunt.id, lane, new, most),
        )
        return [Suspect(row[0], row[1], row[2], json.loads(row[3])) for row in rows]

    def settle(self, suspect: Suspect, state: str, bugs: Sequence[str] = (), reason: str = "") -> None:
        """`state`: bug, flaky (both with the bugs' ids), gone (does not fail alone), disputed (our own references
        disagree) or unclear, with the reason."""
        with self._store.transaction() as database:
            database.execute(
                "UPDATE suspects SET state = ?, bug = ?, body = json_set(body, '$.settled', ?) WHERE id = ?",
                (state, " ".join(bugs), reason, suspect.id),
            )

    def leave_unexamined(self, hunt: Hunt) -> None:
        """No time is left for the suspects that wait."""
        with self._store.transaction() as database:
            database.execute(
                "UPDATE suspects SET state = 'unexamined' WHERE hunt = ? AND state = 'waiting'", (hunt.id,)
            )

    def settled(self, hunt: Hunt) -> dict[str, int]:
        """How many suspects are in each state."""
        rows = self._store.query("SELECT state, COUNT(*) FROM suspects WHERE hunt = ? GROUP BY state", (hunt.id,))
        return dict(rows)

    def sightings(self, hunt: Hunt | None = None) -> dict[str, int]:
        """How many suspects turned out to be each bug."""
        rows = self._store.query(
            "SELECT bug, COUNT(*) FROM suspects WHERE bug != '' AND (? IS NULL OR hunt = ?) GROUP BY bug",
            (hunt.id if hunt else None, hunt.id if hunt else None),
        )
        counts: Counter[str] = Counter()
        for bugs, count in rows:
            for bug in bugs.split():
                counts[bug] += count
        return dict(counts)


_HUNT = "id, plan, environment, started, finished, seconds"


def _hunt(row: Sequence[Any]) -> Hunt:
    return Hunt(row[0], json.loads(row[1]), json.loads(row[2]), row[3], row[4], row[5])
