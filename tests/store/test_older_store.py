"""A store that an older release wrote (`older_store/`): nothing is lost, evidence is a record, old names still work."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from driftline.core.evidence import Fault
from driftline.core.notices import Countdown, listen
from driftline.store import Store

OLDER = Path(__file__).parent / "older_store"
# Old name -> the new one, and what was measured.
NAMES = {
    "openvino-1c9143bf": ("openvino-3cecf32f", Fault.BEYOND_RANGE),
    "openvino-66dc9960": ("openvino-c2212682", Fault.INFINITY_LOST),
    "tvm-77d4983f": ("tvm-6736a0bd", Fault.NAN_LOST),
    "onnxruntime-dd505af1": ("onnxruntime-e97779c0", Fault.OTHER),
    "inductor-813d1216": ("inductor-ddae3bc6", Fault.OTHER),
    "inductor-5f460e8e": ("inductor-d66ac0ac", Fault.NUMBER),
    "inductor-60a5d5c4": ("inductor-d9f6e725", Fault.OTHER),
    "onnxruntime-6ffdc262": ("onnxruntime-27414a42", Fault.NAN_LOST),
}


@pytest.fixture
def older(tmp_path: Path) -> Path:
    shutil.copytree(OLDER, tmp_path / "store")
    return tmp_path / "store"


def test_bugs_go_by_what_was_measured_and_old_names_find_them(older: Path) -> None:
    with Store.create(older) as store:
        assert {bug.id for bug in store.bugs()} == {name for name, _ in NAMES.values()}
        for old, (new, fault) in NAMES.items():
            bug = store.bug(old)
            assert bug.id == new and len(bug.findings) == 1
            assert bug.findings[0].evidence.fault is fault, old
            store.load_case(bug.findings[0].case_id)


def test_numbers_and_messages_are_kept(older: Path) -> None:
    with Store.create(older) as store:
        (element,) = store.bug("openvino-1c9143bf").findings[0].evidence.worst
        assert (element.place, element.expected, element.got) == ((1,), 2**40, 0)
        refused = store.bug("onnxruntime-dd505af1").findings[0].evidence
        assert refused.exception == "Fail" and "relu_clip_fusion.cc" in refused.said and refused.stage == "COMPILE"


def test_a_second_opening_changes_nothing(older: Path) -> None:
    for _ in range(2):
        with Store.create(older) as store:
            names = sorted(bug.id for bug in store.bugs())
    assert names == sorted(name for name, _ in NAMES.values())


def test_a_migration_that_is_interrupted_leaves_the_older_store(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(database: sqlite3.Connection, objects: Path, step: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("driftline.store.migrating.rename_bugs", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Store.create(older)
    with Store.create(older) as store:
        assert store.bug("tvm-77d4983f").id == "tvm-6736a0bd"


KILLED = """
import os, signal, sys
from pathlib import Path
from driftline.core import notices
from driftline.store import Store

left = int(sys.argv[2])

def step(self):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

notices.Countdown.step = step
Store.create(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("at", [1, 5, 9, 16])  # among the verdicts and among the names; 16 steps are all
def test_kill_9_in_the_middle_leaves_the_older_store_as_it_was(older: Path, at: int) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(older), str(at)], check=False)
    assert done.returncode == -signal.SIGKILL
    with sqlite3.connect(older / "store.db") as database:
        assert database.execute("PRAGMA user_version").fetchone() == (5,)
        assert {name for (name,) in database.execute("SELECT id FROM bugs")} == set(NAMES)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
    with Store.create(older) as store:
        assert {bug.id for bug in store.bugs()} == {name for name, _ in NAMES.values()}


def test_a_long_migration_says_how_far_it_is(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr("driftline.core.notices._listeners", [])
    listen(lines.append)
    monkeypatch.setattr(Countdown, "FIRST", 0.0)
    monkeypatch.setattr(Countdown, "EVERY", 0.0)
    Store.create(older).close()
    assert len(lines) == 2 * len(NAMES)
    assert f"The store {older} is of an older Driftline" in lines[0]
    assert lines[-1].endswith("16 of 16")
    Store.create(older).close()
    assert len(lines) == 16, "what is up to date says nothing"
