"""Workers that are held: several tasks in one process, which serve no other caller."""

from __future__ import annotations

from collections.abc import Callable

import psutil
import pytest
from test_pool import KIND, SPAWNED, job, running

from driftline.execute.pool import Pool, WorkerKind

Eventually = Callable[..., None]


@pytest.mark.parametrize("kind", [KIND, SPAWNED], ids=["forked", "spawned"])
def test_tasks_find_what_earlier_ones_left(pool: Pool, kind: WorkerKind, eventually: Eventually) -> None:
    with pool.hold(kind) as worker:
        first = worker.run(job("leave_behind"), {"what": "a"}).answer
        second = worker.run(job("leave_behind"), {"what": "b"}).answer
        assert first and second and second["left"] == ["a", "b"] and second["pid"] == first["pid"]
        other = pool.run(kind, job("leave_behind"), {"what": "c"}).answer
        assert other and other["left"] == ["c"] and other["pid"] != first["pid"]
    eventually(lambda: not running(first["pid"]))


def test_after_a_death_every_task_has_the_same_end_and_others_go_on(pool: Pool) -> None:
    with pool.hold(KIND) as dead, pool.hold(KIND) as alive:
        assert dead.run(job("segfault"), {}).ending == "died"
        again = dead.run(job("identify"), {"n": 1})
        assert again.ending == "died" and again.detail == "SIGSEGV" and again.answer is None
        assert (alive.run(job("identify"), {"n": 1}).answer or {})["n"] == 1


def test_time_is_for_one_task_not_for_the_block(pool: Pool) -> None:
    with pool.hold(KIND) as worker:
        pids = {(worker.run(job("identify"), {}, timeout=20).answer or {})["pid"] for _ in range(5)}
        assert len(pids) == 1 and psutil.pid_exists(pids.pop())
