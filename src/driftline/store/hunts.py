"""The store's tables of hunts: their plans, their turns with statistics, and suspects (failing programs) that await
examination.

A *lane* is the sequence of turns of one target; a turn is a batch of programs run on it. A turn and its suspects are
written in one transaction, and the result for a suspect in another, so a hunt that was killed can be resumed.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.severity import SEVERITIES
from driftline.core.text import to_json
from driftline.core.wire import Json, encode
from driftline.store.rows import check_hunt, check_texts
from driftline.store.run_names import split_run_name, with_run_name
from driftline.store.store import Store, now
from driftline.store.tries import ModelTry

MOST_SECONDS = 1e10  # of a hunt: a damaged row may say 1e308


@dataclass(frozen=True)
class Hunt:
    """One hunt: its plan, the environment it ran in, and its times."""

    id: int
    plan: Mapping[str, Any]  # seed, targets, generators, inputs, budget, programs
    environment: Mapping[str, Any]  # versions by target, python, platform, driftline
    started: str
    finished: str  # empty while it runs, or when it was killed
    seconds: float
    run: str = ""  # its name, which stays when stores are merged


@dataclass(frozen=True)
class SlowProgram:
    """A program that took long, with the slowest step: make, run or judge."""

    seconds: float
    step: str
    generator: str
    arm: str
    number: int
    judgement: str

    @property
    def name(self) -> str:
        return f"{self.generator}:{self.arm}#{self.number}"


@dataclass(frozen=True)
class TurnBody:
    """The results of a turn. Judgements are those of screening: pass, fail, rejected, inconclusive, invalid, nothing,
    internal, broken (the target fails on every program). Stored as JSON: fields may be added, with a default."""

    programs: int = 0
    seconds: float = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)  # by judgement
    reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by judgement
    coverage: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by "operator dtype" and judgement
    arms: tuple[tuple[str, str, int, float], ...] = ()  # generator, arm, programs, reward
    interesting: tuple[Json, ...] = ()  # graphs worth changing
    keys: tuple[str, ...] = ()  # keys of failures, and rules, met for the first time
    generator: str = ""  # of a turn of one generator, which has no arms
    pairs: tuple[str, ...] = ()  # "one>other": operators of which one read the other's result for the first time
    features: Mapping[str, int] = field(default_factory=dict)  # "generator: feature" -> programs that came to a verdict
    tries: tuple[ModelTry, ...] = ()  # programs requested from a language model
    slowest: tuple[SlowProgram, ...] = ()  # programs that took long, the slowest first
    cut: bool = False  # the limit of the hunt made it shorter than it would have been
    again: bool = False  # with the present limit it is to be done again: it counts until that is done


@dataclass(frozen=True)
class Turn:
    """A turn: a batch of programs that ran on one target."""

    lane: str
    number: int
    body: TurnBody


@dataclass(frozen=True)
class SuspectBody:
    """The stored facts about a failure until it is examined. Stored as JSON: fields may be added, with a default."""

    request: Mapping[str, Json]  # a `ProgramRequest`
    new: bool  # is it the first of its key?
    kind: str
    stage: str
    reason: str
    settled: str = ""  # why it is no bug
    operators: int = 0  # of the program: small ones are examined first, since that is quick
    severity: int = len(SEVERITIES)  # for a user, as far as screening can tell; 0 is the worst
    origin: str = ""  # of the inputs on which it failed: random, specials...


@dataclass(frozen=True)
class Suspect:
    """A program that failed in a turn and has to be examined alone."""

    id: int
    lane: str
    turn: int
    body: SuspectBody

    @property
    def program(self) -> str:
        """The name of its program: generator, arm (the generator's subject) and number."""
        asked = self.body.request
        return f"{asked.get('generator', '')}:{asked.get('arm', '')}#{asked.get('number', 0)}"

    @property
    def sentence(self) -> str:
        """A one-line description of the failure."""
        inputs = f" on {self.body.origin} inputs" if self.body.origin else ""
        reason = " ".join(self.body.reason.split())
        return f"{self.lane}: {self.body.kind} of {self.program}{inputs}" + (f" ({reason})" if reason else "")


class HuntLog:
    """The hunts of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def place(self) -> Path:
        """The folder of the store."""
        return self._store.path

    def begin(self, plan: Mapping[str, Any], environment: Mapping[str, Any]) -> Hunt:
        with self._store.transaction() as database:
            row = database.execute(
                "INSERT INTO hunts (plan, environment, started, finished, seconds) VALUES (?, ?, ?, '', 0)",
                (to_json(plan), to_json(with_run_name(environment)), now()),
            )
        return self.hunt(int(row.lastrowid or 0))

    def note_environment(self, hunt: Hunt, environment: Mapping[str, Any]) -> None:
        """Add facts to the hunt's environment, which are known only when the compilers have been imported."""
        with self._store.transaction() as database:
            database.execute(
                "UPDATE hunts SET environment = json_patch(environment, json(?)) WHERE id = ?",
                (to_json(environment), hunt.id),
            )

    def drop(self, hunt: Hunt) -> None:
        """Delete a hunt that has no turns yet."""
        with self._store.transaction() as database:
            database.execute("DELETE FROM hunts WHERE id = ?", (hunt.id,))

    def hunts(self) -> list[Hunt]:
        """All hunts, the oldest first."""
        rows = self._store.query(f"SELECT {_HUNT} FROM hunts ORDER BY id")
        return [hunt for row in rows if (hunt := self._hunt(row))]

    def _hunt(self, row: Sequence[Any]) -> Hunt | None:
        plan, environment = (self._store.sound_json(text, f"Hunt {row[0]}") for text in row[1:3])
        if plan is None or environment is None:
            return None
        try:
            check_hunt(plan, environment)
            check_texts(row[3], row[4])
            if not (isinstance(row[5], (int, float)) and 0 <= row[5] < MOST_SECONDS):
                raise ValueError(f"it ran for {row[5]!r:.60} seconds")
        except ValueError as error:
            place = self._store.path
            self._store.note_gap(f"Hunt {row[0]} in the store {place} is damaged ({error}); it is left out.")
            return None
        environment, run = split_run_name(environment)
        return Hunt(row[0], plan, environment, row[3], row[4], row[5], run)

    def number_of(self, run: str) -> int:
        """Return the present number of the hunt with the name `run`, or 0 if there is none."""
        return next((hunt.id for hunt in self.hunts() if run and hunt.run == run), 0)

    def hunt(self, number: int) -> Hunt:
        rows = self._store.query(f"SELECT {_HUNT} FROM hunts WHERE id = ?", (number,))
        found = self._hunt(rows[0]) if rows else None
        if found is None:
            raise DriftlineError(f"There is no hunt {number} in the store {self._store.path} that can be read.")
        return found

    def unfinished(self) -> list[Hunt]:
        """Return hunts that did not finish, the last one first."""
        return [hunt for hunt in reversed(self.hunts()) if not hunt.finished]

    def finish(self, hunt: Hunt) -> None:
        with self._store.transaction() as database:
            database.execute("UPDATE hunts SET finished = ? WHERE id = ?", (now(), hunt.id))

    def reopen(self, hunt: Hunt) -> None:
        """Reopen a finished hunt, for more time: its unexamined suspects wait for examination again."""
        with self._store.transaction() as database:
            database.execute("UPDATE hunts SET finished = '' WHERE id = ?", (hunt.id,))
            database.execute(
                "UPDATE suspects SET state = 'waiting' WHERE hunt = ? AND state = 'unexamined'", (hunt.id,)
            )

    def set_limit(self, hunt: Hunt, plan: Mapping[str, Any], programs: int = 0) -> int:
        """Set another limit, that of `plan`, and return how many turns it marks to be done again. In each lane these
        are the first turn that the old limit cut short and all after it. Each counts until `add_turn` replaces it, so a
        hunt that is killed in between has lost nothing. Lanes that already have `programs` programs get no further turn
        and stay unchanged. Results for examined suspects are kept; waiting ones stay unexamined until their turn is
        done again."""
        first: dict[str, int] = {}
        had: Counter[str] = Counter()
        for turn in self.turns(hunt):
            had[turn.lane] += turn.body.programs
            if turn.body.cut or turn.body.again:
                first.setdefault(turn.lane, turn.number)
        marked = 0
        with self._store.transaction() as database:
            database.execute("UPDATE hunts SET plan = ? WHERE id = ?", (to_json(plan), hunt.id))
            for lane, number in first.items():
                if programs and had[lane] >= programs:
                    continue
                where, which = "WHERE hunt = ? AND lane = ? AND", (hunt.id, lane, number)
                marked += database.execute(
                    f"UPDATE turns SET body = json_set(body, '$.again', json('true')) {where} number >= ?"
                    " AND json_valid(body)",
                    which,
                ).rowcount
                database.execute(
                    f"UPDATE suspects SET state = 'unexamined' {where} turn >= ? AND state = 'waiting'", which
                )
        return marked

    def end_lane(self, hunt: Hunt, lane: str, turns: int) -> None:
        """End a lane after `turns` turns: delete later turns of an earlier limit that were marked to be done again."""
        with self._store.transaction() as database:
            database.execute(
                "DELETE FROM turns WHERE hunt = ? AND lane = ? AND number >= ? AND json_valid(body)"
                " AND json_extract(body, '$.again')",
                (hunt.id, lane, turns),
            )

    def note_left_out(self, hunt: Hunt, reasons: Sequence[str]) -> None:
        """Add the reasons why generators were left out, where the hunt does not have them yet."""
        known = self.hunt(hunt.id).environment.get("left_out") or []
        if more := [reason for reason in reasons if reason not in known]:
            with self._store.transaction() as database:
                database.execute(
                    "UPDATE hunts SET environment = json_set(environment, '$.left_out', json(?)) WHERE id = ?",
                    (to_json([*known, *more]), hunt.id),
                )

    def spend(self, hunt: Hunt, seconds: float) -> None:
        """Store how long the hunt has run in all, over every resumption."""
        with self._store.transaction() as database:
            database.execute("UPDATE hunts SET seconds = ? WHERE id = ?", (seconds, hunt.id))

    def add_turn(self, hunt: Hunt, turn: Turn, suspects: Sequence[SuspectBody], seconds: float | None = None) -> None:
        """Store a finished turn with its suspects, and the seconds that the hunt has run. A turn that is already stored
        stays unchanged unless it was marked to be done again."""
        with self._store.transaction() as database:
            if seconds is not None:
                database.execute("UPDATE hunts SET seconds = ? WHERE id = ?", (seconds, hunt.id))
            database.execute(
                "DELETE FROM turns WHERE hunt = ? AND lane = ? AND number = ? AND json_valid(body)"
                " AND json_extract(body, '$.again')",
                (hunt.id, turn.lane, turn.number),
            )
            done = database.execute(
                "INSERT OR IGNORE INTO turns VALUES (?, ?, ?, ?)",
                (hunt.id, turn.lane, turn.number, to_json(encode(TurnBody, turn.body))),
            )
            if done.rowcount and suspects:
                known = self._left_by_dropped(database, hunt, turn)
                rows = [(hunt.id, turn.lane, turn.number, to_json(encode(SuspectBody, body))) for body in suspects]
                database.executemany(
                    "INSERT INTO suspects (hunt, lane, turn, body, state, bug) VALUES (?, ?, ?, ?, 'waiting', '')",
                    [row for row in rows if not known or self._is_new(database, known, row[3])],
                )

    @staticmethod
    def _left_by_dropped(database: sqlite3.Connection, hunt: Hunt, turn: Turn) -> dict[str, tuple[int, str]]:
        """Return suspects of this turn and later ones that remain from dropped turns: their numbers and states by
        request. A turn that is now done in full may contain a program that was in a later turn before."""
        rows = database.execute(
            "SELECT json_extract(body, '$.request'), id, state FROM suspects"
            " WHERE hunt = ? AND lane = ? AND turn >= ? AND json_valid(body)"
            " ORDER BY state = 'unexamined' DESC",  # of two rows, the settled one counts
            (hunt.id, turn.lane, turn.number),
        )
        return {request: (number, state) for request, number, state in rows}

    @staticmethod
    def _is_new(database: sqlite3.Connection, known: Mapping[str, tuple[int, str]], body: str) -> bool:
        """True if a suspect has to be stored: it is unknown, or its older row was not examined (that row is
        deleted)."""
        number, state = known.get(_request_in(database, body), (0, ""))
        if state == "unexamined":
            database.execute("DELETE FROM suspects WHERE id = ?", (number,))
        return state in ("", "unexamined")

    def turns(self, hunt: Hunt) -> Iterator[Turn]:
        """Yield every turn of a hunt, by lane and number."""
        rows = self._store.query(
            "SELECT lane, number, body FROM turns WHERE hunt = ? ORDER BY lane, number", (hunt.id,)
        )
        for lane, number, body in rows:
            if not (isinstance(lane, str) and isinstance(number, int)):
                self._store.note_gap(
                    f"A turn of hunt {hunt.id} in the store {self._store.path} has no target or number."
                )
                continue
            held = self._store.sound_json(body, f"Turn {number} of {lane} in hunt {hunt.id}", TurnBody)
            if held is not None:
                yield Turn(lane, number, held)

    def waiting(
        self, hunt: Hunt, lane: str, *, new: bool | None = None, most: int = -1, by_turn: bool = False
    ) -> list[Suspect]:
        """Return suspects of a lane that await examination: those that seem new (`new=True`), those that do not, or
        all. The most severe come first, then those that seem new, then small ones. `by_turn` sorts by turn first, which
        does not depend on when turns finish."""
        rows = self._store.query(
            "SELECT id, lane, turn, body FROM suspects WHERE hunt = ? AND state = 'waiting' AND lane = ?"
            " AND CASE WHEN json_valid(body) THEN ? IS NULL OR json_extract(body, '$.new') = ? END"
            f" ORDER BY {'turn,' if by_turn else ''} {_WORST_FIRST} LIMIT ?",
            (hunt.id, lane, new, new, most),
        )
        held = [(row, self._store.sound_json(row[3], f"The suspect {row[0]}", SuspectBody)) for row in rows]
        if damaged := [(row[0],) for row, body in held if body is None]:
            with self._store.transaction() as database:  # or it would be the first that waits for ever
                database.executemany("UPDATE suspects SET state = 'unclear' WHERE id = ?", damaged)
            return self.waiting(hunt, lane, new=new, most=most, by_turn=by_turn)
        return [Suspect(row[0], row[1], row[2], body) for row, body in held]

    def settle(self, suspect: Suspect, state: str, bugs: Sequence[str] = (), reason: str = "") -> None:
        """Store the result for a suspect. `state`: bug, flaky (both with bug ids), gone (does not fail alone), disputed
        (the references disagree), accepted (an accepted loss of precision) or unclear."""
        with self._store.transaction() as database:
            database.execute(
                "UPDATE suspects SET state = ?, bug = ?, body = json_set(body, '$.settled', ?) WHERE id = ?",
                (state, " ".join(bugs), reason, suspect.id),
            )

    def leave_unexamined(self, hunt: Hunt) -> None:
        """Mark all waiting suspects of a hunt as unexamined: its time is over."""
        with self._store.transaction() as database:
            database.execute(
                "UPDATE suspects SET state = 'unexamined' WHERE hunt = ? AND state = 'waiting'", (hunt.id,)
            )

    def left(self, hunt: Hunt) -> list[Suspect]:
        """Return suspects that were not examined, most severe first."""
        rows = self._store.query(
            "SELECT id, lane, turn, body FROM suspects WHERE hunt = ? AND state IN ('waiting', 'unexamined')"
            f" AND json_valid(body) ORDER BY {_WORST_FIRST}",
            (hunt.id,),
        )
        held = [(row, self._store.sound_json(row[3], f"The suspect {row[0]}", SuspectBody)) for row in rows]
        return [Suspect(row[0], row[1], row[2], body) for row, body in held if body is not None]

    def settled(self, hunt: Hunt) -> dict[str, int]:
        """Return the number of suspects in each state."""
        rows = self._store.query("SELECT state, COUNT(*) FROM suspects WHERE hunt = ? GROUP BY state", (hunt.id,))
        return dict(rows)

    def in_state(self, hunt: Hunt, state: str) -> list[Suspect]:
        """Return the suspects of a hunt in a state. Damaged rows are skipped and noted as gaps."""
        rows = self._store.query(
            "SELECT id, lane, turn, body FROM suspects WHERE hunt = ? AND state = ? ORDER BY lane, turn, id",
            (hunt.id, state),
        )
        held = [(row, self._store.sound_json(row[3], f"The suspect {row[0]}", SuspectBody)) for row in rows]
        return [Suspect(row[0], row[1], row[2], body) for row, body in held if body is not None]

    def bugs_by_mode(self, hunt: Hunt) -> dict[str, set[str]]:
        """Return the bugs found by programs of a language model, by the mode of the request."""
        rows = self._store.query(
            "SELECT json_extract(body, '$.request.mode'), bug FROM suspects WHERE hunt = ? AND bug != ''"
            " AND CASE WHEN json_valid(body) THEN json_extract(body, '$.request.mode') END IS NOT NULL",
            (hunt.id,),
        )
        found: dict[str, set[str]] = {}
        for mode, bugs in rows:
            found.setdefault(mode, set()).update(bugs.split())
        return found

    def bugs_by_turn(self, hunt: Hunt) -> dict[tuple[str, int], set[str]]:
        """Return the bugs that suspects turned out to be, by the lane and turn of the suspect."""
        rows = self._store.query("SELECT lane, turn, bug FROM suspects WHERE hunt = ? AND bug != ''", (hunt.id,))
        found: dict[tuple[str, int], set[str]] = {}
        for lane, turn, bugs in rows:
            found.setdefault((lane, turn), set()).update(bugs.split())
        return found

    def sightings(self, hunt: Hunt | None = None) -> dict[str, int]:
        """Return how many suspects turned out to be each bug, in one hunt or in all."""
        rows = self._store.query(
            "SELECT bug, COUNT(*) FROM suspects WHERE bug != '' AND (? IS NULL OR hunt = ?) GROUP BY bug",
            (hunt.id if hunt else None, hunt.id if hunt else None),
        )
        counts: Counter[str] = Counter()
        for bugs, count in rows:
            for bug in bugs.split():
                counts[bug] += count
        return dict(counts)


def _request_in(database: sqlite3.Connection, body: str) -> str:
    """Return the request of a suspect, in the text form of the database."""
    return str(database.execute("SELECT json_extract(?, '$.request')", (body,)).fetchone()[0])


_HUNT = "id, plan, environment, started, finished, seconds"
_WORST_FIRST = (
    f"COALESCE(json_extract(body, '$.severity'), {len(SEVERITIES)}), json_extract(body, '$.new') DESC,"
    " COALESCE(json_extract(body, '$.operators'), 0), turn, id"
)
