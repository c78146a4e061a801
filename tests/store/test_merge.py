"""Stores merged into one: in any order the same, twice the same, with nothing written into the sources."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_store import add, make_case

from driftline.cli import run
from driftline.core.errors import DriftlineError, StoreError
from driftline.core.verdict import Status
from driftline.serve.records import JobProgress
from driftline.serve.work import number_to_resume
from driftline.store import Store
from driftline.store.audits import AuditLog, AuditMemory
from driftline.store.checks import CheckLog
from driftline.store.diagnoses import Diagnoses
from driftline.store.hunts import HuntLog, SuspectBody, Turn, TurnBody
from driftline.store.merge import merge_stores
from driftline.store.models import ModelAnswers, Requirements, ShownRules
from driftline.store.reductions import Answers, Reductions
from driftline.store.schedules import BatchBody, ScheduleLog
from driftline.store.schema import SCHEMA
from driftline.store.source import open_source


def content(path: Path) -> dict[str, list[str]]:
    """Everything in a store, numbers included."""
    with closing(sqlite3.connect(path / "store.db")) as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        held = {table: sorted(repr(row) for row in database.execute(f"SELECT * FROM {table}")) for table in tables}
    held["objects"] = [f"{p.name} {p.stat().st_size}" for p in sorted((path / "objects").glob("*/*"))]
    return held


def files(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Moments that a test chooses: which row was written last must not depend on how quick the machine is."""

    def tick(minute: int) -> None:
        text = f"2026-01-01T00:{minute:02}:00Z"
        for module in ("store", "hunts", "audits", "checks", "diagnoses", "reductions", "schedules", "models"):
            monkeypatch.setattr(sys.modules[f"driftline.store.{module}"], "now", lambda: text)

    return tick


def campaign(folder: Path, clock: Any) -> list[Path]:
    """Three stores that have bugs in common, and rows of every table."""
    for number in range(3):
        with Store.create(folder / f"s{number}") as kept:
            clock(10 - number)
            shared = add(kept, make_case(folder, "shared"), detail="shared")
            own = add(kept, make_case(folder, f"own {number}"), detail=f"own {number}")
            add(kept, make_case(folder, f"more {number}"), detail="shared")
            log = HuntLog(kept)
            hunt = log.begin({"seed": number}, {"python": "3"})
            for turn in range(2):
                suspects = [SuspectBody({"arm": f"{turn} {n}"}, True, "error", "RUN", "x") for n in range(3)]
                log.add_turn(hunt, Turn("tvm", turn, TurnBody(2, 1.0, {"pass": 2})), suspects)
            log.settle(log.waiting(hunt, "tvm", new=True, most=1)[0], "bug", [own.id])
            log.spend(hunt, 5.0 + number)
            log.finish(hunt)
            memory = AuditMemory(kept, AuditLog(kept).begin({"targets": ["inductor"], "n": number}))
            memory.keep("fired", "rule", {"count": number})
            schedules = ScheduleLog(kept)
            schedules.keep(schedules.begin({"seed": number}), 0, BatchBody({"right": number}), 1.0)
            CheckLog(kept).keep(make_case(folder).program, [("tvm", "1", "fail"), ("iree", "1", "pass")][: number + 1])
            Reductions(kept).save(shared.id, {"by": number})
            Answers(kept)["question"] = {"answer": 1}
            Diagnoses(kept).save(shared.id, "localize", {"by": number})
            ModelAnswers(kept).keep("key", {"ask": 1}, {"said": number})
            Requirements(kept).keep("rule", "source", 1, "model", {"needs": number})
            ShownRules(kept).keep("rule", f"release {number % 2}", {"text": number})
    return [folder / f"s{number}" for number in range(3)]


def test_any_order_and_any_number_of_times_is_the_same(tmp_path: Path, clock: Any) -> None:
    a, b, c = campaign(tmp_path, clock)
    before = [files(path) for path in (a, b, c)]
    result = merge_stores([a, b, c], tmp_path / "abc")
    assert result.added["bugs"] == 4 and result.added["findings"] == 7 and result.added["hunts"] == 3
    merge_stores([c, b, a], tmp_path / "cba")
    merge_stores([b], tmp_path / "one")  # one after another, and in groups
    merge_stores([c], tmp_path / "two")
    merge_stores([tmp_path / "two", a, b], tmp_path / "one")
    whole = content(tmp_path / "abc")
    assert content(tmp_path / "cba") == whole == content(tmp_path / "one")
    again = merge_stores([b, a, b, tmp_path / "one"], tmp_path / "abc")
    assert content(tmp_path / "abc") == whole
    assert not again.added and not again.updated and not again.conflicts.count and not again.damaged.count
    assert all(whole.values())  # there was something of every sort
    assert [files(path) for path in (a, b, c)] == before

    with Store.open(tmp_path / "abc") as kept:
        shared = next(bug for bug in kept.bugs() if "shared" in bug.fingerprint.detail)
        assert (shared.first_seen, shared.last_seen) == ("2026-01-01T00:08:00Z", "2026-01-01T00:10:00Z")
        for finding in kept.bug(shared.id).findings:
            assert kept.load_case(finding.case_id).samples
        log = HuntLog(kept)
        assert [hunt.plan["seed"] for hunt in log.hunts()] == [2, 1, 0]  # the oldest first
        for hunt in log.hunts():
            assert [turn.number for turn in log.turns(hunt)] == [0, 1] and log.settled(hunt) == {
                "bug": 1,
                "waiting": 5,
            }
        assert Reductions(kept).of(shared.id) == {"by": 0}  # the last one made
        assert [entry.plan["n"] for entry in AuditLog(kept).entries()] == [2, 1, 0]


def test_a_hunt_that_has_gone_on_is_the_same_hunt(tmp_path: Path, clock: Any) -> None:
    a, b, _ = campaign(tmp_path, clock)
    shutil.copytree(b, tmp_path / "early")
    with Store.create(b) as kept:
        log = HuntLog(kept)
        (hunt,) = log.hunts()
        log.add_turn(hunt, Turn("tvm", 2, TurnBody(2, 1.0, {"pass": 2})), [])
        for suspect in log.waiting(hunt, "tvm", new=True):
            log.settle(suspect, "gone")
        log.set_limit(hunt, {**hunt.plan, "seconds": 99.0})  # it was given more time, and found out more of itself
        log.note_left_out(hunt, ["optests makes no onnx programs here"])
        log.spend(hunt, 99.0)
    for name, order in (("x", [tmp_path / "early", a, b]), ("y", [b, tmp_path / "early", a])):
        result = merge_stores(order, tmp_path / name)
        assert not result.conflicts.count
        with Store.open(tmp_path / name) as kept:
            log = HuntLog(kept)
            later = log.hunts()[0]
            assert len(log.hunts()) == 2 and later.seconds == later.plan["seconds"] == 99.0
            assert later.environment["left_out"] and later.run == hunt.run
            assert len(list(log.turns(later))) == 3 and log.settled(later) == {"bug": 1, "gone": 5}
    assert content(tmp_path / "x") == content(tmp_path / "y")


def test_what_people_decided_is_kept_and_contradictions_are_told(tmp_path: Path) -> None:
    for name, status in (("a", Status.KNOWN), ("b", Status.FIXED), ("c", Status.NEW)):
        with Store.create(tmp_path / name) as kept:
            kept.mark(add(kept, make_case(tmp_path)).id, status)
    result = merge_stores([tmp_path / "c", tmp_path / "a", tmp_path / "b"], tmp_path / "d")
    with Store.open(tmp_path / "d") as kept:
        assert [bug.status for bug in kept.bugs()] == [Status.KNOWN]
    assert "is fixed there and known elsewhere; it is known now" in result.conflicts.first[-1]


@pytest.mark.parametrize("layout", [SCHEMA - 1, SCHEMA + 1])
def test_a_store_of_another_layout_is_refused(tmp_path: Path, layout: int) -> None:
    for name in ("a", "other"):
        with Store.create(tmp_path / name) as kept:
            add(kept, make_case(tmp_path))
    with closing(sqlite3.connect(tmp_path / "other" / "store.db")) as database:
        database.execute(f"PRAGMA user_version = {layout}")
    with pytest.raises(StoreError, match="written by another release of Driftline"):
        merge_stores([tmp_path / "a", tmp_path / "other"], tmp_path / "e")
    assert not (tmp_path / "e").exists()  # before anything was written


@pytest.mark.parametrize(
    ("damage", "lost"),
    [
        ("UPDATE bugs SET fingerprint = '{'", "bugs"),
        ("UPDATE bugs SET status = 'dancing'", "bugs"),
        ("UPDATE findings SET verdict = CAST(x'ff41' AS TEXT)", "findings"),
        ("UPDATE cases SET body = '[]'", "findings"),
        ("DELETE FROM cases", "findings"),
        ("UPDATE turns SET body = 'x' WHERE number = 1", "turns"),
        ("UPDATE suspects SET body = NULL WHERE turn = 1", "suspects"),
        ("UPDATE hunts SET plan = 'x'", "hunts"),
        ("UPDATE hunts SET seconds = 'nan'", "hunts"),
        ("UPDATE turns SET number = 'x' WHERE number = 1", "turns"),
    ],
)
def test_damaged_rows_are_told_and_skipped(tmp_path: Path, clock: Any, damage: str, lost: str) -> None:
    a, b, c = campaign(tmp_path, clock)
    sound = merge_stores([a, b, c], tmp_path / "sound")
    with closing(sqlite3.connect(b / "store.db", isolation_level=None)) as database:
        database.execute("PRAGMA writable_schema = ON")
        if "NULL" in damage:
            database.execute("UPDATE sqlite_schema SET sql = REPLACE(sql, 'body TEXT NOT NULL', 'body TEXT')")
            database.execute("PRAGMA schema_version = 999")
    with closing(sqlite3.connect(b / "store.db", isolation_level=None)) as database:
        assert database.execute(damage).rowcount
    result = merge_stores([a, b, c], tmp_path / "d")
    assert result.damaged.count and all(f"{b}:" in told for told in result.damaged.first)
    assert result.added[lost] < sound.added[lost]
    merge_stores([c, b, a], tmp_path / "e")
    assert content(tmp_path / "d") == content(tmp_path / "e")
    assert run(["store", "merge", str(b), "--into", str(tmp_path / "f")]) == 1


def test_a_count_that_is_no_number_is_told_and_skipped(tmp_path: Path, clock: Any) -> None:
    """SQLite takes text for a number; compared with the count of another store it would end the merge."""
    a, b, _ = campaign(tmp_path, clock)
    with closing(sqlite3.connect(b / "store.db", isolation_level=None)) as database:
        database.execute("UPDATE checks SET runs = 'often'")
    result = merge_stores([a, b], tmp_path / "d")
    assert [told for told in result.damaged.first if "runs is 'often'" in told] == result.damaged.first
    with closing(sqlite3.connect(tmp_path / "d" / "store.db")) as database:
        assert database.execute("SELECT target, runs FROM checks").fetchall() == [("tvm", 1)]


def test_a_case_under_the_name_of_another_does_not_replace_it(tmp_path: Path) -> None:
    """Cases are named by what they hold: whoever sends a store must not change what a known bug replays."""
    for name in ("mine", "theirs"):
        with Store.create(tmp_path / name) as kept:
            add(kept, make_case(tmp_path))
    before = content(tmp_path / "mine")["cases"]
    with closing(sqlite3.connect(tmp_path / "theirs" / "store.db", isolation_level=None)) as database:
        database.execute("UPDATE cases SET body = json_set(body, '$.program.name', 'another and longer one')")
    for first, second in (("mine", "theirs"), ("theirs", "mine")):
        result = merge_stores([tmp_path / first, tmp_path / second], tmp_path / first / "both")
        assert result.conflicts.count == 1 and "is not what another store has" in result.conflicts.first[0]
        with Store.open(tmp_path / first / "both") as kept:
            assert [kept.load_case(row[0]).program.name for row in kept.query("SELECT id FROM cases")] == ["m.py:f"]
    merge_stores([tmp_path / "theirs"], tmp_path / "mine")
    assert content(tmp_path / "mine")["cases"] == before


def test_a_damaged_object_is_told_and_skipped(tmp_path: Path, clock: Any) -> None:
    a, *_ = campaign(tmp_path, clock)
    spoilt = next((a / "objects").glob("*/*"))
    spoilt.write_bytes(b"something else")
    result = merge_stores([a], tmp_path / "d")
    assert "does not hold what it was written with" in result.damaged.first[0]
    assert not (tmp_path / "d" / "objects" / spoilt.parent.name / spoilt.name).exists()


def test_an_object_that_cannot_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.create(tmp_path / "a") as kept:
        add(kept, make_case(tmp_path))

    def forbidden(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("driftline.store.objects.digest_of", forbidden)
    assert run(["store", "merge", str(tmp_path / "a"), "--into", str(tmp_path / "d")]) == 1
    assert "cannot be read (Permission denied); it is skipped" in capsys.readouterr().err


WRITER = """
import sys; sys.path.insert(0, {tests!r})
from pathlib import Path
from test_store import add, make_case
from driftline.store import Store
with Store.create(Path({store!r})) as kept:
    add(kept, make_case(Path({folder!r})))
    print("written", flush=True)
    sys.stdin.readline()
    add(kept, make_case(Path({folder!r}), "later"), detail="later")
"""


def test_a_store_that_is_being_written_is_read_but_not_written_into(tmp_path: Path) -> None:
    text = WRITER.format(tests=str(Path(__file__).parent), store=str(tmp_path / "busy"), folder=str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as writer:
        assert writer.stdin and writer.stdout
        with contextlib.ExitStack() as stack:
            stack.callback(writer.kill)
            assert writer.stdout.readline() == "written\n"
            assert merge_stores([tmp_path / "busy"], tmp_path / "d").added["bugs"] == 1
            with pytest.raises(StoreError, match="in use by another process"):
                merge_stores([tmp_path / "d"], tmp_path / "busy")
            writer.stdin.write("\n")
            writer.stdin.flush()
            assert writer.wait() == 0
    assert merge_stores([tmp_path / "busy"], tmp_path / "d").added["bugs"] == 1


def test_a_store_that_was_written_and_closed_meanwhile_is_read_again(tmp_path: Path) -> None:
    """Its log is gone then, and the database itself is another one."""
    for name in ("s", "quiet"):
        with Store.create(tmp_path / name) as kept:
            add(kept, make_case(tmp_path))
    with open_source(tmp_path / "s") as source, open_source(tmp_path / "quiet") as quiet:
        assert not source.disturbed()
        with Store.create(tmp_path / "s") as kept:
            add(kept, make_case(tmp_path, "later"), detail="later")
        assert not (tmp_path / "s" / "store.db-wal").exists()
        assert source.disturbed() and not quiet.disturbed()


def test_the_command_says_what_it_did(tmp_path: Path, clock: Any, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, _ = campaign(tmp_path, clock)
    assert run(["store", "merge", str(a), str(b), "--into", str(tmp_path / "d")]) == 0
    assert "2 stores merged into" in capsys.readouterr().out
    assert run(["store", "merge", str(a), str(b), "--into", str(tmp_path / "d"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["added"] == {} and told["stores"] == 2 and told["damaged"] == {"count": 0, "first": []}
    assert run(["store", "merge", str(a), str(tmp_path / "nowhere"), "--into", str(tmp_path / "e")]) == 2
    assert "There is no store in" in capsys.readouterr().err and not (tmp_path / "e").exists()
    with pytest.raises(DriftlineError, match="into itself"):
        merge_stores([a], a)


def test_the_same_work_begun_at_the_same_moment_on_two_machines_stays_two(tmp_path: Path, clock: Any) -> None:
    for name in ("a", "b"):
        with Store.create(tmp_path / name) as kept:
            clock(1)
            memory = AuditMemory(kept, AuditLog(kept).begin({"compilers": ["tvm"]}))
            memory.keep("fired", "rule", {"machine": name})
            ScheduleLog(kept).begin({"functions": ["matmul"]})
            HuntLog(kept).begin({"seed": 0}, {"python": "3"})
    for _ in range(2):
        merge_stores([tmp_path / "a", tmp_path / "b"], tmp_path / "all")
    with Store.open(tmp_path / "all") as merged:
        entries = AuditLog(merged).entries()
        assert [entry.plan for entry in entries] == [{"compilers": ["tvm"]}] * 2
        told = [AuditMemory(merged, entry).kept("fired")["rule"]["machine"] for entry in entries]
        assert sorted(told) == ["a", "b"]
        assert len(ScheduleLog(merged).hunts()) == len(HuntLog(merged).hunts()) == 2


def test_a_hunt_keeps_its_name_when_it_gets_another_number(tmp_path: Path, clock: Any) -> None:
    """Jobs of the page find what they began by it."""
    began = {}
    for name, minute in (("mine", 5), ("earlier", 1)):
        with Store.create(tmp_path / name) as kept:
            clock(minute)
            began[name] = HuntLog(kept).begin({"seed": 0}, {}), AuditLog(kept).begin({})
    merge_stores([tmp_path / "earlier"], tmp_path / "mine")
    with Store.open(tmp_path / "mine") as merged:
        hunt, audit = began["mine"]
        assert hunt.id == audit.id == 1
        assert HuntLog(merged).number_of(hunt.run) == AuditLog(merged).number_of(audit.run) == 2
        assert HuntLog(merged).number_of("") == HuntLog(merged).number_of("another") == 0
        progress = JobProgress(number=1, run=hunt.run)
        assert number_to_resume(HuntLog(merged), progress) == 2
        assert number_to_resume(HuntLog(merged), JobProgress(number=1)) == 1, "of an older release"
        with pytest.raises(DriftlineError, match="start it again"):
            number_to_resume(HuntLog(merged), JobProgress(number=1, run="another"))
