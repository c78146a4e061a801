"""Processes that carry out turns beside the hunt's own: they may die, and nothing of the hunt depends on them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from driftline.backends import BACKENDS
from driftline.campaign.hunt.foremen import FEWEST_JOBS, PLACES, Foremen
from driftline.campaign.orders import TurnOrder
from driftline.checking.batch import Screened
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.kinds import worker_for_framework, worker_for_target
from driftline.core.case import CheckOptions
from driftline.core.target import Target
from driftline.execute.pool import PoolInterrupted, WorkerKind
from driftline.execute.slots import PlaceTime, one_order
from driftline.generate.graph import Graph, Leaf, Node, TensorType

ROW = TensorType("float32", (4,))
TARGET = Target.parse("onnx-reference")
KINDS = {worker_for_framework("onnx", ()), worker_for_target(BACKENDS.get("onnx-reference"), TARGET, ())}


def turn(number: int, programs: int = 3) -> TurnOrder:
    def program(at: int) -> ProgramRequest:
        graph = Graph((Leaf("input", ROW),), (Node("exp", (0,), (ROW,)),), (1,))
        return ProgramRequest("graph", "exp", at, ("random",), seed=str(at), graph=graph)

    return TurnOrder(TARGET, "onnx", tuple(map(program, range(number, number + programs))), CheckOptions(), pieces=8)


def passed(results: list[Screened] | None) -> list[int]:
    assert results is not None
    assert {one.judgement for one in results} == {"pass"}
    return [one.request.number for one in results]


def processes() -> list[psutil.Process]:
    """The foremen of this process."""
    living = [one for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE]
    return [one for one in living if any("campaign.hunt.foreman" in word for word in one.cmdline())]


@pytest.fixture
def foremen() -> Iterator[Foremen]:
    with Foremen(FEWEST_JOBS) as started:
        started.begin([(TARGET, sorted(KINDS, key=str))])
        yield started
    assert not processes(), "they end with the block"


def test_few_jobs_need_none() -> None:
    with Foremen(FEWEST_JOBS - 1) as none:
        none.begin([(TARGET, sorted(KINDS, key=str))])
        assert not none and not processes()
        assert none.screen(turn(0), KINDS) is None


def test_several_turns_at_once_come_back_whole(foremen: Foremen, eventually: Callable[..., None]) -> None:
    assert len(processes()) == FEWEST_JOBS // PLACES
    eventually(lambda: foremen.ready(TARGET, KINDS))
    assert not foremen.ready(TARGET, {*KINDS, WorkerKind("another")}), "nobody imported that"
    took = PlaceTime()

    def screen(number: int) -> list[Screened] | None:
        with one_order(took):
            return foremen.screen(turn(number), KINDS)

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(screen, range(0, 40, 10)))
    assert [passed(answer) for answer in answers] == [list(range(at, at + 3)) for at in range(0, 40, 10)]
    assert took.begun and took.seconds > 0, "what they take counts for the lane"


def test_turns_of_one_that_is_killed_are_done_by_another(foremen: Foremen) -> None:
    with ThreadPoolExecutor(2) as threads:
        answers = [threads.submit(foremen.screen, turn(at, 40), KINDS) for at in (0, 100)]  # they begin with imports
        os.kill(processes()[0].pid, signal.SIGKILL)
        found = [passed(answer.result()) for answer in answers]
    assert found == [list(range(40)), list(range(100, 140))]
    for one in processes():
        os.kill(one.pid, signal.SIGKILL)
    assert foremen.screen(turn(0), KINDS) is None, "nobody is left: the hunt does it"


def test_an_interrupted_turn_is_told_as_such(foremen: Foremen, eventually: Callable[..., None]) -> None:
    eventually(lambda: foremen.ready(TARGET, KINDS))
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(foremen.screen, turn(0, 400), KINDS)
        eventually(lambda: any(foreman.in_hand for foreman in foremen._all))
        while not answer.done():
            foremen.interrupt()
        with contextlib.suppress(PoolInterrupted):  # or there are results: of what was judged by then
            assert len(answer.result() or ()) < 400
    assert passed(foremen.screen(turn(0), KINDS)) == [0, 1, 2], "they can go on"


def test_one_that_was_stopped_holds_nobody_up(foremen: Foremen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftline.campaign.hunt.foremen._PATIENCE", 0.2)
    for one in processes():
        os.kill(one.pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(foremen.screen, turn(0), KINDS)
        while not answer.done():
            foremen.interrupt()
        assert answer.result() is None
    assert not foremen.serve(TARGET)


def test_the_places_are_as_many_as_the_jobs() -> None:
    for jobs in (8, 11, 15, 16):
        with Foremen(jobs) as started:
            started.begin([])
            assert sum(foreman.places for foreman in started._all) == jobs


def test_a_file_in_the_working_folder_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "psutil.py").write_text("raise SystemExit('imported from the working folder')")
    (tmp_path / "numpy.py").write_text("raise SystemExit('imported from the working folder')")
    script = f"""
import sys
sys.path.remove("")
sys.path.append({str(Path(__file__).parent)!r})
import test_foremen as given
with given.Foremen(given.FEWEST_JOBS) as foremen:
    foremen.begin([(given.TARGET, sorted(given.KINDS, key=str))])
    print(given.passed(foremen.screen(given.turn(0), given.KINDS)))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "[0, 1, 2]", done.stderr
