"""The merge rule of each table: the row that results from two stores' rows with the same key.

Every rule takes the greater of two rows in some order, column by column or as a whole. So the result does not depend on
the order or grouping of stores, or on how often one is merged.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from driftline.core.verdict import Status
from driftline.store.rows import fingerprint_of, shallow_json
from driftline.store.run_names import split_run_name
from driftline.store.store import case_name

StoredRow = tuple[Any, ...]

# A status that a person set wins over Driftline's, and a bug is fixed only if no store says otherwise.
_STATUSES = [Status.FIXED, Status.FLAKY, Status.NEW, Status.CONFIRMED, Status.KNOWN]


def check_value(column: str, value: object, kind: type[int] | type[float] | type[str]) -> None:
    """Raise ValueError or TypeError for a value that the column is not meant for; SQLite itself accepts any type."""
    if value is None or isinstance(value, bytes):
        raise TypeError(f"{column} is missing")
    if not isinstance(value, (int, float) if kind is float else kind):
        raise TypeError(f"{column} is {value!r:.60}")
    if isinstance(value, str):
        value.encode()


@dataclass(frozen=True)
class MergedTable:
    """A merged table whose rows have the same key in every store."""

    name: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    join: Callable[[StoredRow, StoredRow], StoredRow]  # of the values
    objects: tuple[str, ...] = ()  # columns that hold a JSON object
    numbers: tuple[str, ...] = ()  # columns that hold whole numbers; all others hold text
    belongs: tuple[tuple[str, str], ...] = ()  # a key, and the table in whose rows it must be found
    conflict: Callable[[StoredRow, StoredRow], bool] = lambda old, new: False  # True: report the difference to the user
    genuine: Callable[[StoredRow, StoredRow], bool] = lambda key, values: True  # False: never replaces a genuine row

    @property
    def columns(self) -> tuple[str, ...]:
        return self.keys + self.values

    def check(self, row: StoredRow) -> None:
        """Raise ValueError or TypeError for a damaged row."""
        for column, value in zip(self.columns, row, strict=True):
            check_value(column, value, int if column in self.numbers else str)
            if column in self.objects and not isinstance(shallow_json(value), dict):
                raise ValueError(f"{column} is not an object")
        if self.name == "bugs":
            fingerprint_of(row[1]), Status(row[2])


def _greater(old: StoredRow, new: StoredRow) -> StoredRow:
    return max(old, new, key=lambda row: (sum(len(str(value)) for value in row), row))


def _later(old: StoredRow, new: StoredRow) -> StoredRow:
    """Return the row that was written last; for equal times, the one with more text."""
    return max(old, new, key=lambda row: (row[-1], sum(len(str(value)) for value in row), row))


def _differ(old: StoredRow, new: StoredRow) -> bool:
    return old[0] != new[0]


def _join_cases(old: StoredRow, new: StoredRow) -> StoredRow:
    return (_greater(old[:1], new[:1])[0], min(old[1], new[1]))


def _is_named_by_content(key: StoredRow, values: StoredRow) -> bool:
    """True if a case's id is the hash of its content. If not, the row is wrong or forged."""
    return case_name(values[0]) == key[0]


def _join_bugs(old: StoredRow, new: StoredRow) -> StoredRow:
    first_seen, summary = min((old[3], old[2]), (new[3], new[2]))
    status = max(old[1], new[1], key=_STATUSES.index)
    return (max(old[0], new[0]), status, summary, first_seen, max(old[4], new[4]))


def _decided_otherwise(old: StoredRow, new: StoredRow) -> bool:
    """True if two stores give a bug different statuses, at least one of which a person set."""
    return old[1] != new[1] and not {old[1], new[1]} <= {Status.NEW, Status.FLAKY}


def _join_checks(old: StoredRow, new: StoredRow) -> StoredRow:
    """Return the merged row of two check counts: the maximum, so that merging a store twice changes nothing."""
    last = max(old, new, key=lambda row: (row[-1], row))
    return (*last[:4], max(old[4], new[4]), max(old[5], new[5]), last[6])


TABLES = (
    MergedTable(
        "cases", ("id",), ("body", "created"), _join_cases, ("body",), conflict=_differ, genuine=_is_named_by_content
    ),
    MergedTable(
        "bugs",
        ("id",),
        ("fingerprint", "status", "summary", "first_seen", "last_seen"),
        _join_bugs,
        ("fingerprint",),
        conflict=_decided_otherwise,
    ),
    MergedTable(
        "findings",
        ("bug", "case_id", "target"),
        ("verdict", "execution", "created"),
        _later,
        ("verdict", "execution"),
        belongs=(("bug", "bugs"), ("case_id", "cases")),
    ),
    MergedTable("reductions", ("bug",), ("body", "created"), _later, ("body",), belongs=(("bug", "bugs"),)),
    MergedTable("diagnoses", ("bug", "step"), ("body", "created"), _later, ("body",), belongs=(("bug", "bugs"),)),
    MergedTable("answers", ("key",), ("body",), _greater, ("body",)),
    MergedTable(
        "checks",
        ("program", "target"),
        ("name", "form", "version", "judgement", "runs", "fails", "last"),
        _join_checks,
        numbers=("runs", "fails"),
    ),
    MergedTable("model_answers", ("key",), ("request", "answer", "created"), _later, ("request", "answer")),
    MergedTable(
        "requirements", ("rule", "source", "prompt", "model"), ("body", "created"), _later, ("body",), ("prompt",)
    ),
    MergedTable("shown_rules", ("rule", "release"), ("body",), _greater, ("body",)),
)


@dataclass(frozen=True)
class RunTable:
    """A table of long work (hunts, audits) and its part tables. Rows are identified by start and name, or by start and
    plan where an older release gave no name. In two stores they are the same work at two moments; the later one is kept
    whole."""

    name: str
    known_by: tuple[str, ...]
    objects: tuple[str, ...]
    parts: tuple[PartTable, ...]
    settled: str = ""  # SQL that counts progress made without updating the time

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.known_by, "finished", "seconds")

    def key(self, row: StoredRow) -> StoredRow:
        """Return the identity of a row of `columns`. A hunt that gets more time has another plan but keeps its name."""
        known = row[: len(self.known_by)]
        for text in known[1:]:
            with contextlib.suppress(ValueError, TypeError, RecursionError):
                if name := split_run_name(json.loads(text))[1]:
                    return (known[0], name)
        return known


@dataclass(frozen=True)
class PartTable:
    """A table whose rows belong to a run."""

    name: str
    run: str  # the column with the number of the run
    columns: tuple[str, ...]
    known_by: tuple[str, ...]  # within the run

    def check(self, row: StoredRow) -> None:
        """Raise ValueError or TypeError for a damaged row."""
        for column, value in zip(self.columns, row, strict=True):
            check_value(column, value, int if column in ("number", "turn") else str)
            if column == "body" and not isinstance(shallow_json(value), dict):
                raise ValueError("body is not an object")

    def key(self, row: StoredRow) -> str:
        """Return the identity of a row within its run."""
        held = dict(zip(self.columns, row, strict=True))
        return json.dumps([part_body(held[name]) if name == "body" else held[name] for name in self.known_by])


def part_body(body: str) -> str:
    """Return the body of a suspect without the result of its examination."""
    try:
        held = json.loads(body)
        held.pop("settled", None)
        return json.dumps(held, sort_keys=True)
    except (ValueError, AttributeError, RecursionError):
        return body


RUNS = (
    RunTable(
        "hunts",
        ("started", "plan", "environment"),
        ("plan", "environment"),
        (
            PartTable("turns", "hunt", ("lane", "number", "body"), ("lane", "number")),
            PartTable("suspects", "hunt", ("lane", "turn", "body", "state", "bug"), ("lane", "turn", "body")),
        ),
        "SELECT COUNT(*) FROM suspects WHERE hunt = ? AND state NOT IN ('waiting', 'unexamined')",
    ),
    RunTable(
        "audits",
        ("started", "plan"),
        ("plan",),
        (PartTable("audit_rules", "audit", ("step", "rule", "body"), ("step", "rule")),),
    ),
    RunTable(
        "schedule_hunts",
        ("started", "plan"),
        ("plan",),
        (PartTable("schedule_batches", "hunt", ("number", "body"), ("number",)),),
    ),
)
