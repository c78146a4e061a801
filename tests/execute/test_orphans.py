"""However the parent process ends, it leaves no process behind, and the next run removes its scratch folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from driftline.execute.workspace import Workspace

PATHS = os.pathsep.join([str(Path(__file__).parent), *sys.path])  # and the Driftline that is tested

# What a user's process does: a job with a family that hangs, an import that hangs, a job on a spawned worker.
PARENT = """
import sys, threading
from driftline.core.task import Task
from driftline.execute.pool import Pool, WorkerKind
paths, folder, what = sys.argv[1:]
variables = (("PYTHONPATH", paths),)
kind = {
    "job": WorkerKind("tasks", variables=variables),
    "spawned": WorkerKind("spawned", fork=False, variables=variables),
    "import": WorkerKind("import", warm=(("worker_tasks:warm_hangs", f"{folder}/pid"),), variables=variables),
}[what]
with Pool() as pool:
    print(pool.workspace.root, flush=True)
    payload = {"folder": folder, "then": "hang", "pid_file": f"{folder}/pid"}
    pool.run(kind, Task("worker_tasks:family_then", dict[str, str], dict[str, str]), payload)
"""


class Parent:
    """A process that uses a pool, with everything below it, noted while it lives."""

    def __init__(self, folder: Path, what: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PARENT, PATHS, str(folder), what],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        self.scratch = Path(self.process.stdout.readline().strip())
        self._busy = folder / "pid"

    def busy(self) -> bool:
        return self._busy.exists()

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other runs on this machine sweep the common one."""
    monkeypatch.setenv("DRIFTLINE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def start(tmp_path: Path, eventually) -> Iterator[object]:
    parents: list[Parent] = []
    families: list[psutil.Process] = []

    def starter(what: str) -> tuple[Parent, list[psutil.Process]]:
        parent = Parent(tmp_path, what)
        parents.append(parent)
        eventually(parent.busy)
        families.extend(parent.family())
        return parent, parent.family()

    yield starter
    for parent in parents:
        parent.process.kill()
        parent.process.communicate()
    for process in families:  # only when the test has failed
        if process.is_running():
            process.kill()


def gone(family: list[psutil.Process]) -> bool:
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family)


@pytest.mark.parametrize(
    ("number", "what"),
    [
        *[pytest.param(signal.SIGKILL, what, id=f"kill-{what}") for what in ("job", "spawned", "import")],
        pytest.param(signal.SIGTERM, "job", id="term-job"),
    ],
)
def test_a_killed_parent_leaves_no_process_and_its_folder_is_swept(start, eventually, what: str, number: int) -> None:
    parent, family = start(what)
    assert len(family) >= (2 if what == "import" else 6)
    os.kill(parent.process.pid, number)
    parent.process.wait()
    eventually(lambda: gone(family))
    assert parent.scratch.exists()
    with_next = Workspace()
    assert not parent.scratch.exists()
    assert not list(parent.scratch.parent.glob(parent.scratch.name + "*"))
    with_next.close()


def test_parent_and_nursery_killed_at_once(start, eventually) -> None:
    parent, family = start("job")
    nursery = next(p for p in family if p.ppid() == parent.process.pid and "DRIFTLINE_WORKER" in p.environ())
    nursery.kill()
    os.kill(parent.process.pid, signal.SIGKILL)
    eventually(lambda: gone([p for p in family if not _bare(p)]))


def _bare(process: psutil.Process) -> bool:
    """Started with no environment at all: once orphaned it cannot be told from anybody's."""
    try:
        return process.environ() == {}
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("what", ["job", "spawned", "import"])
def test_ctrl_c_ends_everything_at_once(start, eventually, what: str) -> None:
    parent, family = start(what)
    parent.process.send_signal(signal.SIGINT)
    _, errors = parent.process.communicate(timeout=120)
    assert "KeyboardInterrupt" in errors
    eventually(lambda: gone(family))
    assert not parent.scratch.exists()


CHECK = """
import sys
from driftline.checking.checker import Checker
from driftline.checking.open import open_source
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.program import SourceBundle
from driftline.core.target import Target
from driftline.core.task import Task
from driftline.execute.pool import Pool
from driftline.oracle.judge import Reference

with Pool() as pool:
    opened = open_source(SourceBundle("model.py", "program", {"model.py": sys.argv[1]}), pool, CheckOptions())
    case = Case(opened.program, (Inputs(opened.example, "example"),), (Target("eager"),), CheckOptions())
    Checker(pool).check(case, known_reference=Reference(problem="not needed"))
"""

ENDLESS = """
import pathlib, time, torch

def function(x):
    pathlib.Path({marker!r}).touch()
    time.sleep(1000)

def program():
    return function, (torch.ones(1),)
"""


def test_ctrl_c_ends_a_check_that_waits_for_a_job(tmp_path: Path, eventually) -> None:
    marker = tmp_path / "running"
    command = [sys.executable, "-c", CHECK, ENDLESS.format(marker=str(marker))]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        eventually(marker.exists)
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert "KeyboardInterrupt" in errors
    eventually(lambda: gone(family))


def test_a_living_runs_folder_is_not_swept() -> None:
    first = Workspace()
    (first.root / "tmp" / "file").write_text("in use")
    second = Workspace()
    assert (first.root / "tmp" / "file").read_text() == "in use"
    assert first.root != second.root
    first.close()
    second.close()
    assert not first.root.exists()
    assert not second.root.exists()


def test_a_fork_does_not_remove_its_parents_folder() -> None:
    workspace = Workspace()
    pid = os.fork()
    if pid == 0:
        workspace.close()
        os._exit(0)
    os.waitpid(pid, 0)
    assert workspace.root.exists()
    workspace.close()
