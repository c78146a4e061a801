"""A program in a worker that looks for the files of other jobs, and for the locks of other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from forgers import OVERWRITE

from driftline.core.private import lock, open_lock, open_private
from driftline.execute.pool import Pool, WorkerKind
from driftline.execute.sandbox import MORE, shortcomings
from driftline.execute.workspace import Workspace
from hostile.attack import Attack, both_ways, replacing

pytestmark = pytest.mark.skipif(bool(shortcomings()), reason="this kernel lacks a layer of the sandbox")
PATHS = ("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))


def _overwritten(part: str) -> Callable[[Path], str]:
    """Has a worker overwrite what belongs to other workers of the run."""

    def play(place: Path) -> str:
        with pytest.MonkeyPatch.context() as own:
            own.setenv("DRIFTLINE_CACHE", str(place / "cache"))
            own.setenv(MORE, "")
            with Pool(Workspace()) as pool:
                folder = pool.workspace.job_folder() if part == "jobs" else pool.workspace.root / part / "other"
                folder.mkdir(exist_ok=True)
                (folder / "0.safetensors").write_text("right")
                request = {"folder": str(pool.workspace.root / part)}
                report = pool.run(WorkerKind("neighbour", variables=(PATHS, (MORE, ""))), OVERWRITE, request)
                assert report.answer is not None, report.log
                found = (folder / "0.safetensors").read_text()
        return "the results of another job are forged" if found == "forged" else ""

    return play


LOCKING = """
import fcntl, os, sys
from driftline.execute.sandbox import enter
enter([])
try:
    fd = os.open(sys.argv[1], os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("locked", flush=True)
except OSError:
    print("refused", flush=True)
input()
"""


def _locked(place: Path) -> str:
    """A worker holds the lock file of a hunt that no process runs."""
    path = place / "hunt-1.lock"
    os.close(open_lock(path))
    environment = {**os.environ, MORE: ""}
    command = [sys.executable, "-c", LOCKING, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as attacker:
        try:
            assert attacker.stdout
            attacker.stdout.readline()
            held = open_lock(path)
            try:
                lock(held)
            except BlockingIOError:
                return "nobody can go on with the hunt"
            finally:
                os.close(held)
        finally:
            attacker.kill()
    return ""


ATTACKS = [
    Attack("results-of-another-job", _overwritten("jobs"), replacing("driftline.execute.workspace._UNLISTED", 0o700)),
    Attack(
        "temporary-files-of-another-job", _overwritten("tmp"), replacing("driftline.execute.workspace._UNLISTED", 0o700)
    ),
    Attack("lock-of-a-hunt", _locked, replacing(f"{__name__}.open_lock", open_private)),
]
test_attack_fails = both_ways(ATTACKS)


def test_lock_file_of_an_older_release_is_closed_to_workers(tmp_path: Path) -> None:
    os.close(open_private(tmp_path / "l"))
    assert (tmp_path / "l").stat().st_mode & 0o777 == 0o600
    os.close(open_lock(tmp_path / "l"))
    assert (tmp_path / "l").stat().st_mode & 0o777 == 0o200
