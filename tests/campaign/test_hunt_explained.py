"""A hunt that explains what it finds counts what it meets on the way; the live table, the end and the store agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from driftline.core.verdict import Fingerprint, Status
from driftline.events import BugSeen, HuntStarted, TurnDone
from driftline.report.hunt_progress import HuntProgress
from driftline.store import Bug, Store

PLUGIN = str(Path(__file__).parent / "two_faced_abs.py")


def test_bugs_that_are_met_while_explaining_are_counted(tmp_path: Path) -> None:
    store = tmp_path / "s"
    head = [sys.executable, "-m", "driftline", "hunt", "--plugin", PLUGIN, "--targets", "two-faced-abs", "--seed", "3"]
    done = subprocess.run(
        [*head, "--generators", "only-abs", "--programs", "2", "--diagnose", "--json", "--store", str(store)],
        env={**os.environ, "DRIFTLINE_CACHE": str(tmp_path / "no-other-releases")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    told = {bug["id"]: bug for bug in json.loads(done.stdout)["bugs"]}
    with Store.open(store) as opened:
        assert set(told) == {bug.id for bug in opened.bugs()}
    (met,) = [bug for bug in told.values() if not bug["sightings"]]
    assert met["fingerprint"]["kind"] == "crash" and met["new"]
    assert f"new  {met['id']}  Abs kills the process" in done.stderr


def test_the_live_table_counts_a_bug_once() -> None:
    targets = ("tvm", "tvm:opt=0")
    progress = HuntProgress()
    progress(HuntStarted(targets, (), (), seed=0, seconds=0.0, programs=5, resumed=0, spent=0.0))
    for lane in targets:
        progress(TurnDone(lane, 0, {"fail": 2}, 1.0))
    for backend, name in (("tvm", "tvm-1"), ("tvm", "tvm-1"), ("a converter", "converter-1")):
        fingerprint = Fingerprint(backend, "RUN", "wrong-value", "abs(float)")
        progress(BugSeen(Bug(name, fingerprint, Status.NEW, "", "", ""), new=False))
    console = Console(width=200)
    with console.capture() as shown:
        console.print(progress._table(200))
    assert "4 programs, " in shown.get() and "/min, 2 bugs" in shown.get()
