"""A hostile or damaged store: a schema that runs, and rows that are not what they should be."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

sys.path.insert(0, str(Path(__file__).parent.parent / "store"))

from test_store import add, make_case

from driftline.campaign.check.stored import case_to_run
from driftline.causes import Library
from driftline.core.errors import DriftlineError
from driftline.report.formats import FORMATS, render
from driftline.report.gather import gather
from driftline.serve.app import Site
from driftline.serve.settings import ServeSettings
from driftline.serve.templating import Pages
from driftline.store import Store
from driftline.store.diagnoses import Diagnoses
from driftline.store.merge import merge_stores
from driftline.store.reductions import Reductions
from hostile.attack import Attack, both_ways, replacing
from typed import typed


def filled(place: Path, count: int = 2) -> list[str]:
    with Store.create(place / "s") as store:
        return [add(store, make_case(place, str(number)), detail=f"op{number}").id for number in range(count)]


def run_sql(place: Path, *statements: str) -> None:
    with closing(sqlite3.connect(place / "s" / "store.db", isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


def left(place: Path) -> int:
    with closing(sqlite3.connect(place / "s" / "store.db")) as database:
        return int(database.execute("SELECT COUNT(*) FROM findings").fetchone()[0])


def _schema(*statements: str) -> Callable[[Path], str]:
    """Uses a store whose schema a stranger has extended: a bug is marked as fixed."""

    def run(place: Path) -> str:
        first, _ = filled(place)
        run_sql(place, *statements)
        before = left(place)
        done = typed("bugs", "mark", first, "fixed", "--store", str(place / "s"))
        assert done.returncode in (0, 2), done.stderr
        if done.returncode == 2:
            assert "did not make" in done.stderr
            return ""
        return "rows are gone" if left(place) < before else "it was used"

    return run


def _merged(place: Path) -> str:
    filled(place)
    run_sql(place, "CREATE TRIGGER t AFTER INSERT ON bugs BEGIN DELETE FROM findings; END")
    try:
        merge_stores([place / "s"], place / "into")
    except DriftlineError:
        return ""
    return "it was merged"


def _view_in_place_of_a_table(place: Path) -> str:
    """Rows that are computed without end while they are read."""
    filled(place)
    run_sql(
        place,
        "DROP TABLE checks",
        "CREATE VIEW checks AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 30000)"
        " SELECT i AS program, i AS name, i AS form, i AS target, i AS version, i AS judgement, i AS runs, i AS fails,"
        " i AS last FROM n",
    )
    try:
        gather(place / "s")
    except DriftlineError:
        return ""
    return "the view was read"


def any_schema(weak: pytest.MonkeyPatch) -> None:
    weak.setattr("driftline.store.opening._is_harmless", lambda *_: True)
    no_guard(weak)


def no_guard(weak: pytest.MonkeyPatch) -> None:
    for module in ("opening", "merge"):
        weak.setattr(f"driftline.store.{module}.guard", lambda database: None)


def _overlooked(attack: Callable[[Path], str]) -> Callable[[Path], str]:
    """The attack where the look at the schema misses it, so that the guard of the connection is alone."""

    def run(place: Path) -> str:
        with pytest.MonkeyPatch.context() as user:
            user.setattr("driftline.store.opening._is_harmless", lambda *_: True)
            return attack(place)

    return run


def _triggered(place: Path) -> str:
    first, _ = filled(place)
    run_sql(place, DELETING)
    before = left(place)
    typed("bugs", "mark", first, "fixed", "--store", str(place / "s"))
    return "rows are gone" if left(place) < before else ""


def _read_view(place: Path) -> str:
    """A view in place of a table; reading it would compute without end."""
    filled(place)
    run_sql(place, "ALTER TABLE checks RENAME TO old", "CREATE VIEW checks AS SELECT * FROM old")
    with Store.open(place / "s") as store:
        try:
            with store.transaction() as database:
                return str(len(database.execute("SELECT * FROM checks").fetchall())) + " rows were computed"
        except (DriftlineError, sqlite3.DatabaseError):
            return ""


def _attached(place: Path) -> str:
    """Statements that reach another database of the user."""
    filled(place)
    with closing(sqlite3.connect(place / "other.db")) as other:
        other.execute("CREATE TABLE precious (x)")
    with Store.open(place / "s") as store:
        try:
            with store.transaction() as database:
                database.execute("COMMIT")
                database.execute("ATTACH ? AS other", (str(place / "other.db"),))
                database.execute("BEGIN")
        except (DriftlineError, sqlite3.DatabaseError):
            return ""
    return "it was attached"


def _long_value(place: Path) -> str:
    """An expression of the schema that makes a huge value."""
    filled(place)
    with Store.open(place / "s") as store:
        try:
            with store.transaction() as database:
                return f"{database.execute('SELECT length(zeroblob(600000000))').fetchone()[0]:,} bytes"
        except (DriftlineError, sqlite3.DatabaseError):
            return ""


DELETING = "CREATE TRIGGER t AFTER UPDATE ON bugs BEGIN DELETE FROM findings; END"
ATTACKS = [
    Attack("trigger", _schema(DELETING), any_schema),
    Attack("trigger-with-the-name-of-a-table", _schema(DELETING.replace(" t ", " hunts ")), any_schema),
    Attack("merged-trigger", _merged, any_schema),
    Attack("view", _view_in_place_of_a_table, any_schema),
    Attack(
        "index-that-computes",
        _schema("CREATE INDEX i ON bugs (length(hex(zeroblob(1000 + length(status)))))"),
        any_schema,
    ),
    Attack(
        "generated-column",
        _schema(
            "ALTER TABLE findings RENAME TO old",
            "CREATE TABLE findings (id INTEGER PRIMARY KEY, bug TEXT, case_id TEXT, target TEXT, verdict TEXT,"
            " execution TEXT, created TEXT, big TEXT AS (hex(zeroblob(100000))))",
            "INSERT INTO findings (bug, case_id, target, verdict, execution, created)"
            " SELECT bug, case_id, target, verdict, execution, created FROM old",
        ),
        any_schema,
    ),
    Attack(
        "row-that-replaces-others",
        _schema(
            "ALTER TABLE answers RENAME TO old",
            "CREATE TABLE answers (key TEXT PRIMARY KEY ON CONFLICT REPLACE, body TEXT NOT NULL)",
        ),
        any_schema,
    ),
]


def _memory_of_the_stranger(place: Path) -> str:
    """A case that lets a program use more memory than there is."""
    (first, _), huge = filled(place), 1 << 60
    run_sql(
        place,
        f"UPDATE cases SET body = json_set(body, '$.options.memory_limit', {huge}, '$.options.plugins', json('[]'))",
    )
    with Store.open(place / "s") as store:
        allowed = case_to_run(store, store.bug(first).findings[0].case_id).options.memory_limit
    return "a worker may use an exbibyte" if allowed >= huge else ""


ATTACKS += [
    Attack(
        "memory-of-a-stored-case",
        _memory_of_the_stranger,
        replacing("driftline.campaign.check.stored.free_memory", lambda: 1 << 61),
    ),
    Attack("overlooked-trigger", _overlooked(_triggered), no_guard),
    Attack("overlooked-view", _overlooked(_read_view), no_guard),
    Attack("attached-database", _attached, no_guard),
    Attack("value-without-end", _long_value, no_guard),
]
test_attack_fails = both_ways(ATTACKS)


DEEP: Any = "x"
for _ in range(400):
    DEEP = {"results": DEEP}
VERDICTS = {
    "no-reason-but-a-number": {"reason": 3},
    "rule-without-a-place": {"rule": {"name": "r"}},
    "rule-is-text": {"rule": "r"},
    "others-is-a-list": {"others": [1]},
    "artifacts-of-numbers": {"artifacts": {"expected": 3}},
    "three-counts": {"failed_runs": [1, 2, 3]},
    "counts-of-text": {"other_inputs": ["a", "b"]},
    "evidence-is-a-list": {"evidence": [1]},
    "element-without-a-value": {"evidence": {"worst": [{"place": [0]}]}},
    "a-word-for-a-number": {"evidence": {"z": "../../etc/passwd"}},
    "nested-without-end": {"others": DEEP},
}
EXECUTIONS = {
    "failure-without-a-traceback": {"failure": {"type": "E", "message": "m"}},
    "failure-is-text": {"failure": "E"},
    "version-is-a-list": {"version": ["1"]},
    "durations-of-text": {"durations": {"compile": "long"}},
    "log-is-a-number": {"log": 3},
}
STEPS = {
    "reduce": {"ended": "x"},
    "localize": {"suspects": [{"title": "t"}], "operators": []},
    "ablate": {"cures": [{"name": 3}]},
    "bisect": {"summary": "s"},
    "layers": {"layers": [{}]},
    "pairwise": {"rows": [{}], "targets": 3},
}


def every_view(place: Path, sound: str, damaged: str) -> str:
    """What all views say of a store with a damaged row: none ends with a fault of Driftline's own."""
    store = ("--store", str(place / "s"))
    said = []
    for words in (
        ("bugs", "list"),
        ("bugs", "list", "--json"),
        ("bugs", "show", sound),
        ("bugs", "show", damaged),
        ("bugs", "show", damaged, "--json"),
        ("coverage",),
    ):
        done = typed(*words, *store)
        assert done.returncode in (0, 1, 2, 5), (words, done.stderr)
        assert "Traceback" not in done.stderr, (words, done.stderr)
        said += [done.stdout, done.stderr]
    report = gather(place / "s")
    assert sound in {bug.id for bug in report.bugs}
    said += [render(report, form) for form in FORMATS]
    merge_stores([place / "s"], place / "into")
    return "\n".join(said)


@pytest.mark.parametrize("name", [*VERDICTS, *EXECUTIONS])
def test_a_damaged_finding_is_one_line(tmp_path: Path, name: str) -> None:
    sound, damaged = filled(tmp_path)
    column, change = ("verdict", VERDICTS[name]) if name in VERDICTS else ("execution", EXECUTIONS[name])
    with closing(sqlite3.connect(tmp_path / "s" / "store.db", isolation_level=None)) as database:
        (text,) = database.execute(f"SELECT {column} FROM findings WHERE bug = ?", (damaged,)).fetchone()
        told = json.dumps({**json.loads(text), **change})
        database.execute(f"UPDATE findings SET {column} = ? WHERE bug = ?", (told, damaged))
    assert f"A finding of {damaged}" in every_view(tmp_path, sound, damaged)


@pytest.mark.parametrize("step", STEPS)
def test_a_damaged_explanation_is_one_line(tmp_path: Path, step: str) -> None:
    sound, damaged = filled(tmp_path)
    with Store.create(tmp_path / "s") as store:
        if step == "reduce":
            Reductions(store).save(damaged, STEPS[step])
        else:
            Diagnoses(store).save(damaged, step, STEPS[step])
    said = every_view(tmp_path, sound, damaged)
    assert f"The {step} of {damaged}" in said and damaged in {bug.id for bug in gather(tmp_path / "s").bugs}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE bugs SET fingerprint = json_set(fingerprint, '$.stage', json('[]')) WHERE id = '{}'",
        "UPDATE bugs SET fingerprint = json_set(fingerprint, '$.kind', '[/x]') WHERE id = '{}'",
        "UPDATE bugs SET first_seen = x'ff00' WHERE id = '{}'",
        "UPDATE bugs SET summary = CAST(x'ff00' AS TEXT) WHERE id = '{}'",
        "UPDATE findings SET created = x'ff' WHERE bug = '{}'",
        "UPDATE cases SET body = json_set(body, '$.targets', json('[\"a b c\"]'))"
        " WHERE id = (SELECT case_id FROM findings WHERE bug = '{}')",
    ],
)
def test_a_damaged_row_does_not_hide_others(tmp_path: Path, statement: str) -> None:
    sound, damaged = filled(tmp_path)
    run_sql(tmp_path, statement.format(damaged))
    every_view(tmp_path, sound, damaged)


DAMAGED_CASES = {
    "time-without-end": "UPDATE cases SET body = json_set(body, '$.options.timeout', 1e300)",
    "no-time": "UPDATE cases SET body = json_set(body, '$.options.timeout', -1)",
    "no-memory": "UPDATE cases SET body = json_set(body, '$.options.memory_limit', 0)",
    "program-is-a-list": "UPDATE cases SET body = json_set(body, '$.program', json('[]'))",
    "program-without-a-form": "UPDATE cases SET body = json_remove(body, '$.program.form')",
    "samples-are-a-number": "UPDATE cases SET body = json_set(body, '$.samples', 3)",
    "options-of-text": "UPDATE cases SET body = json_set(body, '$.options', 'x')",
    "object-is-no-digest": "UPDATE cases SET body = json_set(body, '$.program.digest', '../../../etc/passwd')",
    "body-is-no-json": "UPDATE cases SET body = '{'",
    "body-is-bytes": "UPDATE cases SET body = x'ff00'",
}
OF_ONE = " WHERE id = (SELECT case_id FROM findings WHERE bug = '{}')"


@pytest.mark.parametrize("name", DAMAGED_CASES)
def test_commands_that_run_a_damaged_case_say_one_sentence(tmp_path: Path, name: str) -> None:
    sound, damaged = filled(tmp_path)
    run_sql(tmp_path, DAMAGED_CASES[name] + OF_ONE.format(damaged))
    for command in ("replay", "export", "localize", "reduce", "ablate", "bisect"):
        done = typed(command, damaged, "--store", str(tmp_path / "s"))
        assert done.returncode == 2 and "Traceback" not in done.stderr, (command, done.stderr)
        assert len(done.stderr.strip().splitlines()) <= 3, done.stderr
    every_view(tmp_path, sound, damaged)


@pytest.mark.parametrize("name", [*DAMAGED_CASES, *VERDICTS])
def test_pages_of_a_damaged_store_are_shown(tmp_path: Path, name: str) -> None:
    """Each page of `driftline serve`, and the comparison with another store."""
    sound, damaged = filled(tmp_path)
    (tmp_path / "other").mkdir()
    filled(tmp_path / "other")
    statement = DAMAGED_CASES.get(name, "") + OF_ONE.format(damaged)
    if name in VERDICTS:
        change = json.dumps(VERDICTS[name]).replace("'", "''")
        statement = f"UPDATE findings SET verdict = json_patch(verdict, '{change}') WHERE bug = '{damaged}'"
    run_sql(tmp_path, statement)
    settings = ServeSettings(tmp_path / "s", Library(()), compare=(tmp_path / "other" / "s",))
    site = Site(settings, Pages(settings))
    handlers = {DriftlineError: site.explain, HTTPException: site.explain}
    client = TestClient(Starlette(routes=site.routes(), exception_handlers=handlers))
    for page in ("/bugs", f"/bugs/{sound}", f"/bugs/{damaged}", "/report", "/coverage", "/compare"):
        answer = client.get(page)
        assert answer.status_code != 500, (page, answer.text)  # 503: one sentence about the damage
    assert sound in client.get("/bugs").text
