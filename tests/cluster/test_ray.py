"""A hunt over two Ray nodes on this machine, one of which is killed: the same programs, turns and bugs as without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from driftline.store import Store
from driftline.store.hunts import HuntLog

pytest.importorskip("ray")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

PLUGIN = str(Path(__file__).parents[1] / "campaign" / "wrong_abs.py")


def hunt(store: Path, *more: str, meanwhile: Callable[[int], None] = lambda pid: None) -> None:
    head = [sys.executable, "-m", "driftline", "hunt", "--plugin", PLUGIN, "--targets", "wrong-abs", "--seed", "3"]
    line = [*head, "--generators", "few", "--programs", "120", "--store", str(store), *more]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        meanwhile(process.pid)
        said, _ = process.communicate(timeout=1200)
    assert process.returncode == 1, said  # it found bugs


def what_came_of_it(store: Path) -> tuple[object, ...]:
    with Store.open(store) as opened:
        log = HuntLog(opened)
        (found,) = log.hunts()
        turns = [(one.lane, one.number, one.body.counts, one.body.arms) for one in log.turns(found)]
        bugs = sorted((bug.id, len(opened.bug(bug.id).findings)) for bug in opened.bugs())
        return turns, log.settled(found), bugs


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    found = [int(text) for text in children.read_text().split()] if children.exists() else []
    return found + [further for child in found for further in descendants(child)]


def raylets(pid: int) -> list[int]:
    """Each node of a cluster has one, which keeps the node's processes."""
    found = []
    for child in descendants(pid):
        try:
            if Path(f"/proc/{child}/exe").resolve().name == "raylet":
                found.append(child)
        except OSError:  # it has ended
            continue
    return sorted(found)


def test_a_node_that_dies_changes_nothing(tmp_path: Path) -> None:
    hunt(tmp_path / "alone", "--jobs", "2")
    killed: list[int] = []

    def kill_a_node(pid: int) -> None:
        database = tmp_path / "cluster" / "store.db"
        limit = time.monotonic() + 900
        while time.monotonic() < limit:
            nodes = raylets(pid)
            if len(nodes) == 2 and database.exists() and turns(tmp_path / "cluster") >= 2:
                os.kill(nodes[-1], signal.SIGKILL)  # the second one; the first is the head, without which there is none
                killed.append(nodes[-1])
                return
            time.sleep(0.1)

    hunt(tmp_path / "cluster", "--cluster", "local:2", meanwhile=kill_a_node)
    assert killed, "the hunt was over before a node could be killed"
    assert what_came_of_it(tmp_path / "cluster") == what_came_of_it(tmp_path / "alone")


def turns(store: Path) -> int:
    with Store.open(store) as opened:
        log = HuntLog(opened)
        return sum(len(list(log.turns(one))) for one in log.hunts())
