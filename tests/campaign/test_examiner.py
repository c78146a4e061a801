"""Suspects that are examined in a process of their own, as hunts with many jobs do it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest

from driftline.backends import BACKENDS
from driftline.campaign.crew import MANY_JOBS, LocalCrew
from driftline.campaign.examiner import Examiner, ExaminerLost
from driftline.campaign.orders import SuspectOrder
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.kinds import worker_for_framework, worker_for_target
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.execute.pool import Pool, PoolInterrupted
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.store import Store
from driftline.testing import planted

ROW = TensorType("float32", (4,))
TARGET = Target.parse("planted-wrong-on:op=abs")
PLUGIN = str(Path(planted.__file__).resolve())


@pytest.fixture
def crew(pool: Pool, tmp_path: Path) -> Iterator[LocalCrew]:
    load_plugins([PLUGIN])
    kinds = {
        worker_for_framework("torch", (PLUGIN,)),
        worker_for_target(BACKENDS.get(TARGET.backend), TARGET, (PLUGIN,)),
    }
    with Store.create(tmp_path / "store") as store:
        made = LocalCrew(pool, store, MANY_JOBS)
        # As `begin` does it, which would bind the pool of all tests.
        made._kinds[TARGET, "torch"] = kinds
        made._examiner = Examiner(2, None, kinds)
        assert not made._examiner.knows(kinds)
        wait_for(lambda: made._examiner is not None and made._examiner.knows(kinds))
        yield made
        began = time.monotonic()
        made.end()
        assert time.monotonic() - began < 5.0, "it had to be killed"


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def suspect(*operators: str) -> SuspectOrder:
    nodes = tuple(Node(name, (at,), (ROW,)) for at, name in enumerate(operators))
    graph = Graph((Leaf("input", ROW),), nodes, (len(operators),))
    request = ProgramRequest("graph", operators[0], 0, ("random",), seed="0", graph=graph)
    return SuspectOrder(TARGET, "torch", request, CheckOptions(plugins=(PLUGIN,)))


def children() -> set[int]:
    running = psutil.Process().children()
    return {process.pid for process in running if "driftline.campaign.examiner" in " ".join(process.cmdline())}


def test_it_finds_what_the_hunt_records_and_a_killed_one_is_missed_by_nobody(crew: LocalCrew, tmp_path: Path) -> None:
    (examiner,) = children()
    examined = crew.examine(suspect("exp", "abs"))
    ((bug, new),) = examined.bugs
    assert (examined.state, new, bug.fingerprint.detail) == ("bug", True, "abs of float")
    again = crew.examine(suspect("exp", "abs"))
    assert [(one.id, new) for one, new in again.bugs] == [(bug.id, False)]
    with Store.open(tmp_path / "store") as store:
        store.load_case(store.bug(bug.id).findings[0].case_id)
    os.kill(examiner, signal.SIGKILL)
    assert crew.examine(suspect("abs", "exp")).state == "bug"
    assert crew._examiner
    with pytest.raises(ExaminerLost):
        crew._examiner.examine(suspect("exp"), ())


def test_what_the_hunt_found_by_itself_is_known_to_it(crew: LocalCrew) -> None:
    """It would look closely at what is known, and record it as often again, depending on when it had imported."""
    kinds = crew._kinds.pop((TARGET, "torch"))  # as long as it has not imported them, the hunt examines by itself
    ((bug, new),) = crew.examine(suspect("exp", "abs")).bugs
    assert new and crew._taker
    crew._kinds[TARGET, "torch"] = kinds
    assert [(one.id, len(one.findings)) for one in crew._taker.known(TARGET)] == [(bug.id, 1)]


def test_interrupted_it_gives_up_what_it_is_at_and_goes_on(crew: LocalCrew) -> None:
    examiner, over = crew._examiner, threading.Event()
    assert examiner

    def interrupt() -> None:  # again and again, as a hunt does whose time is over: the order may not have arrived yet
        while not over.wait(0.2):
            examiner.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(PoolInterrupted):
        examiner.examine(suspect("exp", "abs"), ())
    over.set()
    thread.join()
    assert examiner.examine(suspect("exp", "abs"), ()).examined.state == "bug"


def test_it_imports_nothing_from_the_folder_of_the_hunt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "driftline.py").write_text("raise SystemExit('a file of the user')")
    monkeypatch.chdir(tmp_path)
    kind = worker_for_framework("onnx")
    examiner = Examiner(1, None, [kind])
    try:
        wait_for(lambda: examiner.knows([kind]) or examiner._is_lost)
        assert not examiner._is_lost
        assert os.getsid(examiner._process.pid) != os.getsid(0), "Ctrl-C is for the hunt"
    finally:
        examiner.close()


def test_who_waits_for_an_answer_that_cannot_be_read_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(connection: Connection) -> object:
        received.wait(60)
        raise AttributeError("there is no such class")

    def ask() -> None:
        with contextlib.suppress(ExaminerLost):
            examiner.examine(suspect("exp"), ())

    received = threading.Event()
    monkeypatch.setattr(Connection, "recv", unreadable)
    monkeypatch.setattr(threading, "excepthook", lambda told: None)
    examiner = Examiner(1, None)
    try:
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        wait_for(lambda: bool(examiner._waiting))
        received.set()
        asking.join(10)
        assert not asking.is_alive()
    finally:
        examiner.close()


def test_it_ends_when_the_hunt_is_killed() -> None:
    text = "from driftline.campaign.examiner import Examiner; import time; e = Examiner(2, None)\n"
    text += "print(e._process.pid, flush=True); time.sleep(60)"
    hunt = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert hunt.stdout
    examiner = psutil.Process(int(hunt.stdout.readline()))
    hunt.kill()
    hunt.wait()
    wait_for(lambda: not examiner.is_running() or examiner.status() == psutil.STATUS_ZOMBIE)
