"""The store keeps everything once, survives being killed, and says in one sentence what is wrong with it."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.errors import DriftlineError, StoreError
from driftline.core.program import Program, SourceBundle, file_digest
from driftline.core.target import Target
from driftline.core.tensors import TensorSpec
from driftline.core.verdict import Fingerprint, Status
from driftline.store import Bug, Store
from driftline.store.schema import SCHEMA


def make_case(folder: Path, text: str = "x") -> Case:
    path = folder / f"program-{abs(hash(text))}"
    path.write_bytes(SourceBundle("m.py", "f", {"m.py": text}).dump())
    program = Program("source", "torch", file_digest(path), path, "m.py:f", (TensorSpec("x", "float32", (3,)),))
    inputs = Inputs({"x": np.array([1.0, np.nan, np.inf], np.float32)}, "example")
    return Case(program, (inputs,), (Target("inductor"), Target("tvm")), CheckOptions(plugins=("a.py",)))


def add(store: Store, case: Case, detail: str = "mul", status: Status = Status.NEW) -> Bug:
    return store.add_finding(
        Fingerprint("inductor", "RUN", "wrong-value", detail),
        case,
        Target("inductor"),
        summary="wrong",
        status=status,
        verdict={"ratio": float("inf")},
        execution={"version": "1"},
    )


def test_a_case_comes_back_as_it_was(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        bug = add(store, make_case(tmp_path))
        case = store.load_case(bug.findings[0].case_id)
    original = make_case(tmp_path)
    assert case.program.digest == original.program.digest
    assert case.program.path.read_bytes() == original.program.path.read_bytes()
    assert case.targets == (Target("inductor"),)
    assert case.options == original.options
    np.testing.assert_array_equal(case.samples[0].arrays["x"], original.samples[0].arrays["x"])


def test_one_fingerprint_is_one_bug(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        add(store, make_case(tmp_path, "a"))
        add(store, make_case(tmp_path, "a"))  # the same case again
        add(store, make_case(tmp_path, "b"))
        add(store, make_case(tmp_path, "c"), detail="add")
        assert len(store.bugs()) == 2
        assert len(add(store, make_case(tmp_path, "a")).findings) == 2


def test_what_people_decided_stays(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        bug = add(store, make_case(tmp_path))
        store.mark(bug.id, Status.KNOWN)
        assert add(store, make_case(tmp_path)).status is Status.KNOWN
        store.mark(bug.id, Status.FIXED)
        assert add(store, make_case(tmp_path)).status is Status.NEW  # it came back


def test_names_may_be_shortened_but_not_ambiguous(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s") as store:
        one = add(store, make_case(tmp_path), "a")
        add(store, make_case(tmp_path), "b")
        assert store.bug(one.id[:-2]).id == one.id
        with pytest.raises(DriftlineError, match="may be any of"):
            store.bug("inductor-")
        with pytest.raises(DriftlineError, match="There is no bug"):
            store.bug("nothing")


@pytest.mark.parametrize("layout", [SCHEMA - 1, SCHEMA + 1])
def test_a_store_of_another_layout_is_refused_and_left_as_it_was(tmp_path: Path, layout: int) -> None:
    with Store.create(tmp_path) as store:
        bug = add(store, make_case(tmp_path))
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as database:
        database.execute(f"PRAGMA user_version = {layout}")
    for opener in (Store.create, Store.open):
        with pytest.raises(StoreError, match=f"another release of Driftline .layout {layout}, this release reads"):
            opener(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (layout,)
        assert database.execute("SELECT id FROM bugs").fetchall() == [(bug.id,)]


def test_a_database_without_tables_becomes_a_store(tmp_path: Path) -> None:
    """It was made by a process that was killed before the tables were there."""
    sqlite3.connect(tmp_path / "store.db").close()
    with Store.create(tmp_path) as store:
        add(store, make_case(tmp_path))
        assert len(store.bugs()) == 1


def test_something_else_is_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("this is a diary, not a database, and it is long enough to be looked at")
    with pytest.raises(StoreError, match="not a Driftline store"):
        Store.create(tmp_path)
    with pytest.raises(StoreError, match="There is no store"):
        Store.open(tmp_path / "elsewhere")


@contextlib.contextmanager
def without_rights() -> Iterator[None]:
    """Root may write everywhere: become nobody for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_read_only_store_can_be_read_but_not_written() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Store.create(folder / "s") as store:
            bug = add(store, make_case(folder))
        folder.chmod(0o755)
        for path in (folder / "s").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o444)
        (folder / "s").chmod(0o555)
        with without_rights():
            with Store.open(folder / "s") as store:
                assert store.bug(bug.id).id == bug.id
            with pytest.raises(StoreError, match="cannot be written"), Store.create(folder / "s") as store:
                store.mark(bug.id, Status.KNOWN)
            with pytest.raises(StoreError, match="cannot be written"):
                Store.create(folder / "new")
        (folder / "s").chmod(0o755)


@pytest.mark.skipif(os.geteuid() != 0, reason="a small file system can only be mounted by root")
def test_a_full_disk_stops_cleanly_and_keeps_what_is_there(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("this container may not mount a file system")
    try:
        with Store.create(disk / "s") as store:
            first = add(store, make_case(tmp_path, "first"))
            with pytest.raises(StoreError, match="is full"):
                for number in range(1000):
                    add(store, make_case(tmp_path, f"{number} {os.urandom(20000).hex()}"), detail=str(number))
            kept = store.bugs()
        with Store.open(disk / "s") as store:
            assert [bug.id for bug in store.bugs()] == [bug.id for bug in kept]
            assert store.load_case(store.bug(first.id).findings[0].case_id).program.name == "m.py:f"
    finally:
        subprocess.run(["umount", str(disk)], check=True)


_WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_store import add, make_case
from driftline.store import Store
folder, name = Path(sys.argv[1]), sys.argv[2]
with Store.create(folder / "s") as store:
    for number in range(int(sys.argv[3])):
        add(store, make_case(folder, f"{{name}} {{number}}"), detail=f"{{name}} {{number}}")
        print(number, flush=True)
"""


def start_writer(folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    code = _WRITER.format(tests=str(Path(__file__).parent))
    command = [sys.executable, "-c", code, str(folder), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_killed_at_any_moment_it_stays_whole(tmp_path: Path) -> None:
    """Kill a writer after various numbers of findings; all that was acknowledged must be there and load."""
    acknowledged = 0
    for round_number in range(6):
        writer = start_writer(tmp_path, f"round{round_number}", 10_000)
        assert writer.stdout
        for _ in range(1 + 3 * round_number):
            writer.stdout.readline()
            acknowledged += 1
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        with Store.open(tmp_path / "s") as store:
            bugs = store.bugs()
            assert len(bugs) >= acknowledged
            acknowledged = len(bugs)
            for bug in bugs:
                for finding in store.bug(bug.id).findings:
                    assert store.load_case(finding.case_id).samples


def test_two_processes_share_a_store(tmp_path: Path) -> None:
    writers = [start_writer(tmp_path, name, 40) for name in ("one", "two")]
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    with Store.open(tmp_path / "s") as store:
        assert len(store.bugs()) == 80
