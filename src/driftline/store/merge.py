"""`merge`: many stores into one. The result is the same in any order and any number of times.

Rows and objects are identified by their content, so each is taken once (`merged_tables.py`); numbers of hunts and
findings are assigned again in an order that follows from the rows. Sources are read row by row and never written. Each
source is one transaction: if a merge is killed, running it again finishes it.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from driftline.core.errors import DriftlineError, StoreError
from driftline.core.notices import Countdown
from driftline.store.merged_tables import RUNS, TABLES, MergedTable, RunTable, StoredRow, check_value, part_body
from driftline.store.objects import Objects
from driftline.store.opening import guard
from driftline.store.rows import shallow_json
from driftline.store.source import SourceStore, open_source, require_source
from driftline.store.store import Store, explained

TOLD = 100  # messages of a kind that are kept; further ones are only counted


@dataclass
class Sentences:
    """Messages for the user: the first few, and their total number."""

    first: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, sentence: str) -> None:
        self.count += 1
        if len(self.first) < TOLD:
            self.first.append(sentence)


@dataclass
class MergeResult:
    """The result of a merge. `added` and `updated` count rows by table; rows in neither were already known."""

    into: Path
    stores: int
    added: Counter[str] = field(default_factory=Counter)
    updated: Counter[str] = field(default_factory=Counter)
    conflicts: Sentences = field(default_factory=Sentences)
    damaged: Sentences = field(default_factory=Sentences)

    def to_json(self) -> dict[str, Any]:
        return {
            "into": str(self.into),
            "stores": self.stores,
            "added": dict(sorted(self.added.items())),
            "updated": dict(sorted(self.updated.items())),
            "conflicts": {"count": self.conflicts.count, "first": self.conflicts.first},
            "damaged": {"count": self.damaged.count, "first": self.damaged.first},
        }


def merge_stores(sources: Sequence[Path], into: Path, *, objects: bool = True) -> MergeResult:
    """Merge `sources` into the store `into`, which is created if needed; without `objects`, merge only the rows."""
    for path in sources:
        if path.resolve() == into.resolve():
            raise DriftlineError(f"{path} is to be merged into itself; name it once, with --into.")
        require_source(path)
    result = MergeResult(into, len(sources))
    Store.create(into).close()
    with _alone_with(into) as store:
        progress = Countdown(f"Merging into {into}; stores done", len(sources))
        for path in sources:
            while not _take(store, path, result, objects=objects):
                pass
            progress.step()
        with store.transaction() as database:
            _number(database)
    return result


@contextlib.contextmanager
def _alone_with(path: Path) -> Iterator[Store]:
    """Open the store with an exclusive lock: a running hunt could not handle being renumbered."""
    with explained(path):
        database = sqlite3.connect(path / "store.db", timeout=5, isolation_level=None)
        guard(database)
        try:
            database.execute("PRAGMA locking_mode=EXCLUSIVE")
            database.execute("PRAGMA synchronous=NORMAL")
            database.execute("BEGIN IMMEDIATE")
            database.execute("COMMIT")
        except sqlite3.OperationalError as error:
            database.close()
            raise StoreError(
                f"The store {path} is in use by another process, such as a hunt, an audit or driftline serve; merge"
                " when it has ended, or into another store."
            ) from error
    with Store(path, database) as store:
        yield store


def _take(store: Store, path: Path, result: MergeResult, *, objects: bool) -> bool:
    """Merge one source in a transaction. Returns False, with no change, if the source was written meanwhile and has to
    be read again."""
    step = MergeResult(result.into, 1)
    with open_source(path) as source:
        if objects:
            with explained(store.path):
                for trouble in Objects(store.path.resolve() / "objects", store.path).take_all(path / "objects"):
                    step.damaged.add(f"{path}: {trouble}; it is skipped.")
        with contextlib.suppress(_Disturbed), store.transaction() as database:
            taking = _Taking(source, database, step)
            for table in TABLES:
                taking.table(table)
            for run in RUNS:
                taking.runs(run)
            if source.disturbed():
                raise _Disturbed
            result.added += step.added
            result.updated += step.updated
            for told, heard in ((result.conflicts, step.conflicts), (result.damaged, step.damaged)):
                for sentence in heard.first:
                    told.add(sentence)
                told.count += heard.count - len(heard.first)
            return True
    return False


class _Disturbed(Exception):
    """Raised when a source that was read without locks is being written."""


class _Taking:
    """The merge of one source into a store."""

    def __init__(self, source: SourceStore, database: sqlite3.Connection, result: MergeResult) -> None:
        self._source = source
        self._path = source.path
        self._database = database
        self._result = result
        self._unsound: set[tuple[str, object]] = set()  # tables and names of damaged rows

    # -- rows that have a name of their own --------------------------------------------------------------------------

    def table(self, table: MergedTable) -> None:
        columns, values = ", ".join(table.columns), ", ".join(table.values)
        where = " AND ".join(f"{key} = ?" for key in table.keys)
        marks = ", ".join("?" * len(table.columns))
        changed = ", ".join(f"{value} = ?" for value in table.values)
        for row in self._rows(f"SELECT {columns} FROM {table.name} ORDER BY rowid", table.name):
            if not self._sound(table, row) or not self._has_owner(table, row):
                continue
            key, new = row[: len(table.keys)], row[len(table.keys) :]
            old = self._database.execute(f"SELECT {values} FROM {table.name} WHERE {where}", key).fetchone()
            if old is None:
                self._database.execute(f"INSERT INTO {table.name} ({columns}) VALUES ({marks})", row)
                self._result.added[table.name] += 1
            elif old != new:
                self._join(table, key, old, new, f"UPDATE {table.name} SET {changed} WHERE {where}")

    def _join(self, table: MergedTable, key: StoredRow, old: StoredRow, new: StoredRow, update: str) -> None:
        if not _is_sound(table, (*key, *old)):  # here, too, something may be damaged
            joined = new
        else:
            genuine = [values for values in (old, new) if table.genuine(key, values)]
            joined = genuine[0] if len(genuine) == 1 else table.join(old, new)
            if table.conflict(old, new):
                self._result.conflicts.add(_conflict(table, key, old, new, joined, self._path))
        if joined != old:
            self._database.execute(update, (*joined, *key))
            self._result.updated[table.name] += 1

    def _sound(self, table: MergedTable, row: StoredRow) -> bool:
        try:
            table.check(row)
            return True
        except (ValueError, TypeError, RecursionError) as error:
            self._damaged(table.name, row, error)
            self._unsound.add((table.name, row[0]))
            return False

    def _has_owner(self, table: MergedTable, row: StoredRow) -> bool:
        """True if the source itself holds the rows that this row refers to. Rows of other stores do not count, so that
        the result does not depend on the order of merging."""
        for key, name in table.belongs:
            value = row[table.columns.index(key)]
            there = next(self._rows(f"SELECT 1 FROM {name} WHERE id = ?", name, (value,)), None)
            if there is None or (name, value) in self._unsound:
                self._damaged(table.name, row, f"what it belongs to in {name} cannot be read")
                return False
        return True

    # -- hunts and audits --------------------------------------------------------------------------------------------

    def runs(self, run: RunTable) -> None:
        columns = ", ".join(run.columns)
        for number, *row in self._rows(f"SELECT id, {columns} FROM {run.name} ORDER BY id", run.name):
            try:
                _check_run(run, tuple(row))
            except (ValueError, TypeError, RecursionError) as error:
                self._damaged(run.name, (number, *row), error)
                continue
            began = self._database.execute(
                f"SELECT id, {columns} FROM {run.name} WHERE {run.known_by[0]} = ? ORDER BY id", row[:1]
            )
            here = next((one for one in began.fetchall() if run.key(one[1:]) == run.key(tuple(row))), None)
            if here is None:
                made = self._database.execute(
                    f"INSERT INTO {run.name} ({columns}) VALUES ({', '.join('?' * len(row))})", row
                )
                self._result.added[run.name] += 1
                self._parts(run, number, int(made.lastrowid or 0), by_key=False)
            else:
                self._meet(run, number, here, row)

    def _meet(self, run: RunTable, number: int, here: StoredRow, row: Sequence[Any]) -> None:
        """Merge a run that is in both stores: the later state is kept."""
        ours, our_sizes = self._state(run, here[0], here, here=True)
        theirs, their_sizes = self._state(run, number, row, here=False)
        if theirs == ours:
            if our_sizes != their_sizes:  # one of them is damaged
                self._parts(run, number, here[0], by_key=True)
            return
        longer, shorter = (their_sizes, our_sizes) if theirs > ours else (our_sizes, their_sizes)
        if any(count > other for count, other in zip(shorter, longer, strict=True)):
            self._result.conflicts.add(
                f"{self._path}: of {run.name} begun {row[0]} there are two that went different ways; the one that ran"
                " longer is kept, and the bugs of both."
            )
        if theirs > ours:
            for part in run.parts:
                self._database.execute(f"DELETE FROM {part.name} WHERE {part.run} = ?", (here[0],))
            values = ", ".join(f"{column} = ?" for column in run.columns)
            self._database.execute(f"UPDATE {run.name} SET {values} WHERE id = ?", (*row, here[0]))
            self._result.updated[run.name] += 1
            self._parts(run, number, here[0], by_key=False)

    def _parts(self, run: RunTable, number: int, here: int, *, by_key: bool) -> None:
        """Copy the rows of a run's part tables; with `by_key`, only those that are missing here."""
        for part in run.parts:
            columns = ", ".join(part.columns)
            have: set[str] = set()
            question = f"SELECT {columns} FROM {part.name} WHERE {part.run} = ? ORDER BY rowid"
            if by_key:
                have = {part.key(row) for row in self._database.execute(question, (here,))}
            marks = ", ".join("?" * (1 + len(part.columns)))
            for row in self._rows(question, part.name, (number,)):
                try:
                    part.check(row)
                except (ValueError, TypeError, RecursionError) as error:
                    self._damaged(part.name, row, error)
                    continue
                if part.key(row) not in have:
                    self._database.execute(
                        f"INSERT OR REPLACE INTO {part.name} ({part.run}, {columns}) VALUES ({marks})", (here, *row)
                    )
                    self._result.added[part.name] += 1

    def _state(
        self, run: RunTable, number: int, row: Sequence[Any], *, here: bool
    ) -> tuple[tuple[Any, ...], list[int]]:
        """Return how far a run is, as a comparable value, and the number of its rows in each part table."""

        def count(question: str) -> int:
            asked = self._database.execute(question, (number,)) if here else self._rows(question, run.name, (number,))
            return int(next(iter(asked), (0,))[0])

        sizes = [count(f"SELECT COUNT(*) FROM {part.name} WHERE {part.run} = ?") for part in run.parts]
        described = tuple(row[-2 - len(run.known_by) : -2])  # at one moment, any of two, but always the same
        return (row[-1], row[-2], count(run.settled) if run.settled else 0, *described), sizes

    # -- reading -----------------------------------------------------------------------------------------------------

    def _rows(self, question: str, table: str, values: StoredRow = ()) -> Iterator[StoredRow]:
        """Yield rows of the source; if its file is damaged, note that and stop."""
        try:
            yield from self._source.database.execute(question, values)
        except sqlite3.DatabaseError as error:
            self._result.damaged.add(f"{self._path}: the rest of {table} cannot be read ({error}).")

    def _damaged(self, table: str, row: StoredRow, error: object) -> None:
        name = str(row[0])[:60].encode(errors="replace").decode()
        self._result.damaged.add(f"{self._path}: {name!r} in {table} is damaged ({error}); it is skipped.")


def _is_sound(table: MergedTable, row: StoredRow) -> bool:
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        table.check(row)
        return True
    return False


def _check_run(run: RunTable, row: StoredRow) -> None:
    for column, value in zip(run.columns, row, strict=True):
        check_value(column, value, float if column == "seconds" else str)
        if column in run.objects and not isinstance(shallow_json(value), dict):
            raise ValueError(f"{column} is not an object")


def _conflict(table: MergedTable, key: StoredRow, old: StoredRow, new: StoredRow, joined: StoredRow, path: Path) -> str:
    if table.name == "bugs":
        return f"{path}: the bug {key[0]} is {new[1]} there and {old[1]} elsewhere; it is {joined[1]} now."
    kept = "that of this store" if joined[0] == new[0] else "the other one"
    return f"{path}: {key[0]!r} in {table.name} is not what another store has under that name; {kept} is kept."


# -- numbers ---------------------------------------------------------------------------------------------------------


def _number(database: sqlite3.Connection) -> None:
    """Renumber hunts, audits, findings and suspects in an order that follows from their content."""
    database.create_function("part_body", 1, part_body, deterministic=True)
    for run in RUNS:
        owned = [(part.name, part.run) for part in run.parts]
        _renumber(database, run.name, ", ".join(run.known_by), owned)
    _renumber(database, "findings", "created, bug, case_id, target", [])
    _renumber(database, "suspects", "hunt, lane, turn, part_body(body)", [])


def _renumber(database: sqlite3.Connection, table: str, order: str, owned: Sequence[tuple[str, str]]) -> None:
    database.execute("CREATE TEMP TABLE numbers (old INTEGER PRIMARY KEY, new INTEGER NOT NULL)")
    database.execute(f"INSERT INTO numbers SELECT id, ROW_NUMBER() OVER (ORDER BY {order}) FROM {table}")
    database.execute("DELETE FROM numbers WHERE old = new")
    for name, column in chain([(table, "id")], owned):
        # By way of negative numbers, which none of them has: a number may belong to another row still.
        database.execute(
            f"UPDATE {name} SET {column} = -(SELECT new FROM numbers WHERE old = {column})"
            f" WHERE {column} IN (SELECT old FROM numbers)"
        )
        database.execute(f"UPDATE {name} SET {column} = -{column} WHERE {column} < 0")
    database.execute("DROP TABLE numbers")
