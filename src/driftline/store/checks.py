"""The store's table of single checks: which program ran on which target, and its judgement. Passes are kept too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.wire import WireError, decode
from driftline.store.store import Store, now


@dataclass(frozen=True)
class CheckedProgram:
    """The history of one program on one target."""

    program: str  # its digest
    name: str
    form: str
    target: str
    version: str  # of the compiler, the last time
    judgement: str  # the last one
    runs: int
    fails: int
    last: str


class CheckLog:
    """The checks of a store, one row for each program and target."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def keep(self, program: Program, results: Iterable[tuple[str, str, str]]) -> None:
        """Count a check of a program. `results` are (target, version, judgement) rows."""
        rows = [
            (program.digest, target, program.name, program.form, version, judgement, int(judgement == "fail"), now())
            for target, version, judgement in results
        ]
        with self._store.transaction() as database:
            database.executemany(
                "INSERT INTO checks (program, target, name, form, version, judgement, runs, fails, last)"
                " VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?) ON CONFLICT (program, target) DO UPDATE SET name = excluded.name,"
                " version = excluded.version, judgement = excluded.judgement, runs = runs + 1,"
                " fails = fails + excluded.fails, last = excluded.last",
                rows,
            )

    def all(self) -> list[CheckedProgram]:
        """Every program on every target; a damaged row is left out, and is a gap."""
        rows = self._store.query(f"SELECT {', '.join(_COLUMNS)} FROM checks ORDER BY target, name, program")
        return [found for row in rows if (found := self._sound(row))]

    def _sound(self, row: Sequence[Any]) -> CheckedProgram | None:
        told = dict(zip(_COLUMNS, row, strict=True))
        try:
            Target.parse(str(told["target"]))
            return decode(CheckedProgram, told)
        except (WireError, DriftlineError) as error:
            name, place = str(told["name"])[:80], self._store.path
            self._store.note_gap(f"The check of {name!r} in the store {place} is damaged ({error}); it is left out.")
            return None


_COLUMNS = tuple(field.name for field in fields(CheckedProgram))
