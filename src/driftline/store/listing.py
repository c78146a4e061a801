"""Lists of bugs, filtered and paged by the database, so that a page of a large store does not read all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from driftline.core.severity import BY_KIND, SEVERITIES
from driftline.store.store import BUG_COLUMNS, Bug, Finding, Store

_AT_ONCE = 500  # names in one question to the database
# The same expressions as in the indexes (`schema.py`), so that SQLite uses these. A damaged fingerprint gives NULL.
_BACKEND, _KIND = (
    f"CASE WHEN json_valid(fingerprint) THEN json_extract(fingerprint, '$.{field}') END"
    for field in ("backend", "kind")
)
_FIELDS = {"backend": _BACKEND, "kind": _KIND}
_RANKS = " ".join(f"WHEN '{kind}' THEN {rank}" for kind, rank in BY_KIND.items())
_SERIOUS = f"""
    CASE status WHEN 'fixed' THEN 3 WHEN 'known' THEN 2 WHEN 'flaky' THEN 1 ELSE 0 END,
    CASE {_KIND} {_RANKS} ELSE {len(SEVERITIES)} END,
    first_seen DESC, id"""
SERIOUS = "serious"
ORDERS = {
    SERIOUS: _SERIOUS,
    "newest": "first_seen DESC, id",
    "oldest": "first_seen, id",
    "seen": "last_seen DESC, id",
    "compiler": f"{_BACKEND}, {_SERIOUS}",
    "kind": f"{_KIND}, {_SERIOUS}",
}


@dataclass(frozen=True)
class BugFilter:
    """A filter for bugs; empty fields match all. `since` is a time as the store writes it, or a prefix of one. Every
    word of `text` must occur in the bug's name, fingerprint or summary."""

    compiler: str = ""
    kind: str = ""
    status: str = ""
    since: str = ""
    text: str = ""

    def sql(self) -> tuple[str, tuple[str, ...]]:
        conditions = (
            (f"{_BACKEND} = ?", self.compiler),
            (f"{_KIND} = ?", self.kind),
            ("status = ?", self.status),
            ("first_seen >= ?", self.since),
            *(("(id || ' ' || fingerprint || ' ' || summary) LIKE ? ESCAPE '!'", _like(w)) for w in self.text.split()),
        )
        used = [(text, value) for text, value in conditions if value]
        return " AND ".join(text for text, _ in used) or "1", tuple(value for _, value in used)


ALL = BugFilter()


def _like(word: str) -> str:
    """Return the LIKE pattern that matches a word anywhere in a text."""
    return "%" + "".join(f"!{char}" if char in "!%_" else char for char in word) + "%"


def query_of(wanted: BugFilter, order: str = SERIOUS) -> tuple[str, tuple[str, ...]]:
    """Return the SQL query and its values for a list of bugs."""
    where, values = wanted.sql()
    return f"SELECT {BUG_COLUMNS} FROM bugs WHERE {where} ORDER BY {ORDERS[order]}", values


def count_bugs(store: Store, wanted: BugFilter = ALL) -> int:
    where, values = wanted.sql()
    return int(store.query(f"SELECT COUNT(*) FROM bugs WHERE {where}", values)[0][0])


def count_by_kind(store: Store) -> dict[tuple[str, str], int]:
    """Return the number of bugs by (compiler, kind); bugs with a damaged fingerprint are not counted."""
    rows = store.query(f"SELECT {_BACKEND}, {_KIND}, COUNT(*) FROM bugs GROUP BY 1, 2")
    return {(str(compiler), str(kind)): count for compiler, kind, count in rows if compiler is not None}


def list_bugs(
    store: Store, wanted: BugFilter = ALL, *, order: str = SERIOUS, most: int = -1, skip: int = 0
) -> list[Bug]:
    """Return a page of bugs, most serious first, then newest, or in another of `ORDERS`; each with its first
    finding."""
    question, values = query_of(wanted, order)
    rows = store.query(f"{question} LIMIT ? OFFSET ?", (*values, most, skip))
    found = [bug for row in rows if (bug := store.sound_bug(row))]
    firsts = _first_findings(store, [bug.id for bug in found])
    return [replace(bug, findings=(firsts[bug.id],) if bug.id in firsts else ()) for bug in found]


def versions_seen(store: Store, bug: str = "") -> dict[str, tuple[str, ...]]:
    """Return the releases that each bug (or this one) was seen on, in the order of sighting."""
    rows = store.query(
        "SELECT bug, CASE WHEN json_valid(execution) THEN json_extract(execution, '$.version') END AS version"
        f" FROM findings {'WHERE bug = ?' if bug else ''} GROUP BY bug, version ORDER BY MIN(id)",
        (bug,) if bug else (),
    )
    found: dict[str, list[str]] = {}
    for bug, version in rows:
        if version:
            found.setdefault(bug, []).append(str(version))
    return {bug: tuple(versions) for bug, versions in found.items()}


def findings_count(store: Store) -> dict[str, int]:
    return dict(store.query("SELECT bug, COUNT(*) FROM findings GROUP BY bug"))


def kinds_of(store: Store, field: str) -> list[str]:
    """Return the distinct values of a fingerprint field, `backend` or `kind`."""
    return [
        str(row[0])
        for row in store.query(f"SELECT DISTINCT {_FIELDS[field]} FROM bugs ORDER BY 1")
        if row[0] is not None
    ]


def _first_findings(store: Store, names: Sequence[str]) -> dict[str, Finding]:
    found: dict[str, Finding] = {}
    for name, case, target, verdict, execution, created in _rows(store, names):
        if finding := store.sound_finding(name, (case, target, verdict, execution, created)):
            found[name] = finding
    return found


def _rows(store: Store, names: Sequence[str]) -> Iterator[Any]:
    for start in range(0, len(names), _AT_ONCE):
        some = tuple(names[start : start + _AT_ONCE])
        marks = ", ".join("?" * len(some))
        yield from store.query(
            "SELECT f.bug, f.case_id, f.target, f.verdict, f.execution, f.created FROM findings f"
            f" WHERE f.id IN (SELECT MIN(id) FROM findings WHERE bug IN ({marks}) GROUP BY bug)",
            some,
        )
