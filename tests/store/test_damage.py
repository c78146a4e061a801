"""A store that is damaged, read-only or on a full disk: what can be read is read, and the rest is said."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from test_store import add, make_case, without_rights

from driftline.cli import run
from driftline.core.errors import StoreError
from driftline.core.files import copy_file
from driftline.core.private import new_part
from driftline.report.formats import render
from driftline.report.gather import gather
from driftline.store import Bug, Store
from driftline.store.audits import AuditLog, AuditMemory
from driftline.store.hunts import HuntLog, SuspectBody, Turn, TurnBody
from driftline.store.reductions import Answers, Reductions
from driftline.store.schedules import ScheduleLog


def filled(folder: Path, count: int = 3) -> list[Bug]:
    with Store.create(folder / "s") as store:
        return [add(store, make_case(folder, str(number)), detail=f"op{number}") for number in range(count)]


def damage(folder: Path, sql: str, *values: str) -> None:
    with closing(sqlite3.connect(folder / "s" / "store.db", isolation_level=None)) as database:
        assert database.execute(sql, values).rowcount == 1


def objects(folder: Path) -> list[Path]:
    return [path for path in sorted((folder / "s" / "objects").rglob("*")) if path.is_file()]


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    bugs = filled(tmp_path, 1)
    for path in objects(tmp_path):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
        with Store.open(tmp_path / "s") as store, pytest.raises(StoreError, match="is damaged"):
            store.load_case(bugs[0].findings[0].case_id)
        add_again(tmp_path)  # what is found again is written again
        with Store.open(tmp_path / "s") as store:
            assert store.load_case(bugs[0].findings[0].case_id).samples


def add_again(folder: Path) -> None:
    filled(folder, 1)


@pytest.mark.parametrize("name", ["../../../../etc/passwd", "x", "", "A" * 64])
def test_an_object_has_a_name_of_its_own(tmp_path: Path, name: str) -> None:
    bugs = filled(tmp_path, 1)
    damage(tmp_path, "UPDATE cases SET body = json_set(body, '$.program.digest', ?)", name)
    with Store.open(tmp_path / "s") as store, pytest.raises(StoreError, match="is not the name of an object"):
        store.load_case(bugs[0].findings[0].case_id)


DAMAGES = {
    "a fingerprint": "UPDATE bugs SET fingerprint = '{' WHERE id = ?",
    "a status": "UPDATE bugs SET status = 'dancing' WHERE id = ?",
    "a name": "UPDATE bugs SET id = 'x y' || char(10) WHERE id = ?",
    "a finding": "UPDATE findings SET verdict = 'no JSON' WHERE bug = ?",
    "what a finding holds": "UPDATE findings SET verdict = '[]' WHERE bug = ?",
    "an execution": "UPDATE findings SET execution = '{' WHERE bug = ?",
    "evidence": "UPDATE findings SET verdict = json_set(verdict, '$.evidence', 3) WHERE bug = ?",
    "a case": "UPDATE cases SET body = '{}' WHERE id = (SELECT case_id FROM findings WHERE bug = ?)",
    "a case's JSON": "UPDATE cases SET body = '{' WHERE id = (SELECT case_id FROM findings WHERE bug = ?)",
}


@pytest.mark.parametrize("what", DAMAGES)
def test_one_damaged_row_is_a_gap_and_the_others_are_reported(tmp_path: Path, what: str, capsys: object) -> None:
    bugs = filled(tmp_path)
    damage(tmp_path, DAMAGES[what], bugs[1].id)
    report = gather(tmp_path / "s")
    assert {bug.id for bug in report.bugs} >= {bugs[0].id, bugs[2].id}
    assert report.gaps and all("is damaged" in gap for gap in report.gaps)
    for form in ("html", "md"):
        assert "is damaged" in render(report, form)
    assert run(["bugs", "list", "--store", str(tmp_path / "s")]) == 0
    shown = capsys.readouterr()  # type: ignore[attr-defined]
    assert bugs[0].id in shown.out and bugs[2].id in shown.out


def test_a_lost_object_is_a_gap(tmp_path: Path) -> None:
    filled(tmp_path)
    objects(tmp_path)[0].unlink()
    report = gather(tmp_path / "s")
    assert len(report.bugs) == 3 and "has lost the object" in report.gaps[0]


def test_a_damaged_plan_does_not_hide_what_an_audit_found(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        AuditMemory(store, AuditLog(store).begin({"compilers": ["tvm"]})).keep("fired", "rule", {"reach": "fired"})
        ScheduleLog(store).begin({"functions": ["matmul"]})
    damage(tmp_path, "UPDATE audits SET plan = ?", "[]")
    damage(tmp_path, "UPDATE schedule_hunts SET plan = ?", "3")
    with Store.open(tmp_path / "s") as store:
        [entry] = AuditLog(store).entries()
        assert entry.plan == {} and AuditMemory(store, entry).kept("fired") == {"rule": {"reach": "fired"}}
        assert [hunt.plan for hunt in ScheduleLog(store).hunts()] == [{}]


def test_damaged_rows_of_hunts_and_answers_are_left_out(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        log = HuntLog(store)
        hunt, other = log.begin({"seed": 1}, {}), log.begin({"seed": 2}, {})
        for number in range(3):
            suspects = [SuspectBody({}, new, "error", "RUN", "wrong") for new in (True, False)]
            log.add_turn(hunt, Turn("tvm", number, TurnBody(2, 1.0, {"pass": 2})), suspects)
        Answers(store)["one"] = {"answer": 1}
        Reductions(store).save("bug", {"a": 1})
    damage(tmp_path, "UPDATE turns SET body = 'x' WHERE number = ?", "1")
    damage(tmp_path, "UPDATE suspects SET body = 'x' WHERE id = ?", "1")
    damage(tmp_path, "UPDATE suspects SET body = json_remove(body, '$.kind') WHERE id = ?", "3")
    damage(tmp_path, "UPDATE answers SET body = 'x' WHERE key = ?", "one")
    damage(tmp_path, "UPDATE hunts SET plan = 'x' WHERE id = ?", str(other.id))
    damage(tmp_path, "UPDATE reductions SET body = '[' WHERE bug = ?", "bug")
    with Store.create(tmp_path / "s") as store:
        log = HuntLog(store)
        assert [turn.number for turn in log.turns(hunt)] == [0, 2]
        assert [hunt.id for hunt in log.hunts()] == [hunt.id]
        assert [suspect.id for suspect in log.waiting(hunt, "tvm", new=True, most=1)] == [5]
        assert "one" not in Answers(store) and Reductions(store).of("bug") is None
        assert len(store.gaps) == 5


def test_parts_that_a_killed_process_left_are_swept(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    place = objects(tmp_path)[0]
    left = place.with_name(".part-1-a")
    left.write_bytes(b"half")
    with new_part(place) as (part, file):
        file.write(b"half")
        Store.create(tmp_path / "s").close()
        assert not left.exists() and part.exists()  # somebody is writing that one
    assert not part.exists()


@pytest.mark.parametrize("link", [True, False])
def test_a_big_object_is_on_the_disk_before_it_is_spoken_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: bool
) -> None:
    synced: list[int] = []
    really = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.fstat(fd).st_ino)
        really(fd)

    monkeypatch.setattr("os.fsync", fsync)
    (tmp_path / "big").write_bytes(b"x" * 1000)
    copy_file(tmp_path / "big", tmp_path / "kept", link=link, lasting=True)
    assert (tmp_path / "kept").read_bytes() == b"x" * 1000 and not list(tmp_path.glob(".part-*"))
    assert {(tmp_path / "kept").stat().st_ino, tmp_path.stat().st_ino} <= set(synced)


def test_what_is_committed_is_seen_in_a_store_that_cannot_be_written() -> None:
    """A writer was killed: its last bugs are in the write-ahead log, not in the database."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Store.create(folder / "s") as store:
            bugs = [add(store, make_case(folder, str(number)), detail=str(number)) for number in range(2)]
            shutil.copytree(folder / "s", folder / "killed", ignore=shutil.ignore_patterns("*-shm"))
        assert (folder / "killed" / "store.db-wal").stat().st_size
        folder.chmod(0o755)
        for path in (folder / "killed").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o444)
        (folder / "killed").chmod(0o555)
        with without_rights(), Store.open(folder / "killed") as store:
            assert {bug.id for bug in store.bugs()} == {bug.id for bug in bugs}
            assert store.load_case(store.bug(bugs[0].id).findings[0].case_id).samples
        (folder / "killed").chmod(0o755)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this container may not mount a file system")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can only be mounted by root")


@needs_root
@pytest.mark.parametrize("size", ["4k", "16k", "32k", "64k", "96k", "128k"])
def test_a_disk_that_is_too_small_for_a_store_is_full(tmp_path: Path, size: str) -> None:
    with (
        small_disk(tmp_path, size) as disk,
        pytest.raises(StoreError, match="is full"),
        Store.create(disk / "s") as store,
    ):
        for number in range(50):
            add(store, make_case(tmp_path, str(number)), detail=str(number))


@needs_root
def test_a_full_cache_ends_a_hunt_with_one_sentence(tmp_path: Path) -> None:
    with small_disk(tmp_path, "600k") as disk:
        command = "hunt --targets onnxruntime --generators graph --budget 60s --seed 1".split()
        done = subprocess.run(
            [sys.executable, "-m", "driftline", *command, "--store", str(tmp_path / "s")],
            capture_output=True, text=True, timeout=300, env={**os.environ, "DRIFTLINE_CACHE": str(disk)},
        )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "is full" in done.stderr and "Traceback" not in done.stderr
