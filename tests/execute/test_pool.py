"""The pool, against tasks that do their worst. Every test uses real processes."""

from __future__ import annotations

import errno
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from driftline.core.errors import InternalError
from driftline.core.scratch import KEPT
from driftline.core.task import Task
from driftline.execute import limits
from driftline.execute.nursery_handle import NurseryHandle
from driftline.execute.pool import Pool, PoolExpired, PoolInterrupted, WorkerKind, WorkerStartError
from driftline.execute.task_report import TaskReport
from driftline.execute.worker_handle import WorkerHandle

HERE = str(Path(__file__).parent)
PATHS = ("PYTHONPATH", os.pathsep.join([HERE, *sys.path]))  # and the Driftline that is tested
KIND = WorkerKind("tasks", warm=(("worker_tasks:warm_nothing", None),), variables=(PATHS,))
SPAWNED = WorkerKind("spawned", fork=False, variables=(PATHS,))
FAMILY = ("plain", "stubborn", "session", "orphan", "bare")


def job(name: str) -> Task[dict[str, Any], dict[str, Any]]:
    return Task(f"worker_tasks:{name}", dict[str, Any], dict[str, Any])


def warmed_by(function: str, argument: object = None) -> WorkerKind:
    return WorkerKind(function, warm=((f"worker_tasks:{function}", argument),), variables=(PATHS,))


@pytest.fixture
def own_pool() -> Iterator[Pool]:
    """For tests that break the pool itself."""
    with Pool() as pool:
        yield pool


def running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def read_pids(folder: Path) -> list[int]:
    return [int((folder / name).read_text()) for name in FAMILY]


# -- how tasks end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KIND, SPAWNED], ids=["forked", "spawned"])
@pytest.mark.parametrize(
    ("task", "detail"),
    [
        ("segfault", "SIGSEGV"),
        ("abort", "SIGABRT"),
        ("leave", "exit code 7"),
        ("sys_exit", "exit code 7"),
    ],
)
def test_death_is_reported_with_its_stage_and_cause(pool: Pool, kind: WorkerKind, task: str, detail: str) -> None:
    report = pool.run(kind, job("stage_then"), {"then": task, "code": 7})
    assert (report.ending, report.stage, report.detail) == ("died", "RUN", detail)
    assert pool.run(kind, job("identify"), {"n": 1}).answer["n"] == 1


def test_a_crash_leaves_the_python_stack_in_the_log(pool: Pool) -> None:
    assert "in segfault" in pool.run(KIND, job("segfault"), {}).log


@pytest.mark.parametrize("kind", [KIND, SPAWNED], ids=["forked", "spawned"])
def test_time_out_ends_a_task_that_ignores_signals(pool: Pool, kind: WorkerKind, tmp_path: Path) -> None:
    report = pool.run(kind, job("hang"), {"pid_file": str(tmp_path / "pid")}, timeout=3)
    assert report.ending == "timeout"
    assert report.seconds >= 3
    assert not running(int((tmp_path / "pid").read_text()))


def test_memory_limit(pool: Pool) -> None:
    report = pool.run(KIND, job("eat_memory"), {}, memory_limit=400 << 20, timeout=60)
    assert report.ending == "memory"
    assert "of 400 MiB" in report.detail
    assert 400 << 20 < report.peak_memory < 2 << 30


def test_memory_of_children_counts(pool: Pool) -> None:
    report = pool.run(KIND, job("use_memory_in_child"), {}, memory_limit=400 << 20, timeout=60)
    assert report.ending == "memory"


def test_a_worker_may_not_start_processes_without_end(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    monkeypatch.setattr(limits, "PROCESSES", 20)
    report = pool.run(KIND, job("breed"), {"folder": str(tmp_path)}, timeout=60)
    assert report.ending == "memory" and "20 are allowed" in report.detail
    started = [int(entry.name) for entry in tmp_path.iterdir()]
    assert started
    eventually(lambda: not any(map(running, started)))


def test_a_worker_cannot_write_a_file_without_end(pool: Pool) -> None:
    far = {"bytes": 65 << 30}
    report = pool.run(KIND, job("write_far"), far)
    assert report.answer == {"errno": errno.EFBIG}


def test_memory_error_is_no_mistake_of_ours(pool: Pool) -> None:
    report = pool.run(KIND, job("raise_memory_error"), {})
    assert (report.ending, report.detail) == ("memory", "MemoryError")


def test_peak_memory_is_that_of_the_job_not_of_the_worker(own_pool: Pool) -> None:
    large = own_pool.run(KIND, job("use_memory"), {"bytes": 200 << 20})
    small = own_pool.run(KIND, job("use_memory"), {"bytes": 1})
    assert large.peak_memory > 200 << 20
    assert small.peak_memory < large.peak_memory - (150 << 20)


def test_an_exception_is_an_internal_error_with_its_traceback(pool: Pool) -> None:
    with pytest.raises(InternalError, match="the task is mistaken") as caught:
        pool.run(KIND, job("raise_error"), {})
    assert "raise_error" in str(caught.value)


def test_an_answer_that_is_not_plain_data_is_an_internal_error(pool: Pool) -> None:
    with pytest.raises(InternalError, match="not plain data"):
        pool.run(KIND, job("answer_with_object"), {})


def test_a_task_that_cuts_its_connection_is_ended(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "END_TIMEOUT", 1.0)
    report = pool.run(KIND, job("close_connection"), {}, timeout=60)
    assert (report.ending, report.detail) == ("died", "lost its connection")


# -- what tasks print --------------------------------------------------------------------------------------------------


def test_megabytes_of_output_block_nothing_and_the_end_is_kept(pool: Pool) -> None:
    report = pool.run(KIND, job("shout"), {"kilobytes": 4096}, timeout=60)
    assert report.ending == "done"
    assert "the last words" in report.log
    assert "from below Python" in report.log
    assert len(report.log) < 10_000


def test_endless_output_does_not_fill_the_disk(own_pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_LIMIT", 1 << 20)
    cut: list[int] = []
    truncate = os.truncate
    monkeypatch.setattr(os, "truncate", lambda path, size: (cut.append(size), truncate(path, size)))
    report = own_pool.run(KIND, job("shout_forever"), {}, timeout=4.0)
    assert report.ending == "timeout"
    assert len(cut) > 1
    assert report.log.endswith("yyy")


def test_a_job_that_closes_its_output_does_not_silence_the_next(own_pool: Pool) -> None:
    pid = own_pool.run(KIND, job("identify"), {}).answer["pid"]
    assert own_pool.run(KIND, job("close_streams"), {}).answer == {"closed": True}
    report = own_pool.run(KIND, job("say"), {"words": "heard again"})
    assert report.answer["pid"] == pid
    assert report.log == "heard again\n"


def test_logs_of_jobs_are_apart(pool: Pool) -> None:
    pool.run(KIND, job("say"), {"words": "first"})
    assert pool.run(KIND, job("say"), {"words": "second"}).log == "second\n"


# -- reuse -------------------------------------------------------------------------------------------------------------


def test_a_worker_is_reused_and_fresh_means_new(own_pool: Pool) -> None:
    first, second = (own_pool.run(KIND, job("identify"), {}).answer["pid"] for _ in range(2))
    fresh = own_pool.run(KIND, job("identify"), {}, fresh=True).answer["pid"]
    after = own_pool.run(KIND, job("identify"), {}).answer["pid"]
    assert first == second == after != fresh


def test_a_fresh_worker_ends_with_its_job(own_pool: Pool, eventually) -> None:
    pids = [own_pool.run(KIND, job("identify"), {}, fresh=True).answer["pid"] for _ in range(3)]
    assert len(set(pids)) == 3
    eventually(lambda: not any(map(running, pids)))


def test_workers_are_recycled(own_pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOBS_PER_WORKER", 3)
    pids = [own_pool.run(KIND, job("identify"), {}).answer["pid"] for _ in range(7)]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]


def test_spawned_workers_serve_one_job(own_pool: Pool, eventually) -> None:
    results = [own_pool.run(SPAWNED, job("identify"), {"n": n}).answer for n in range(2)]
    assert [result["n"] for result in results] == [0, 1]
    assert results[0]["pid"] != results[1]["pid"]
    assert not any(running(result["pid"]) for result in results)


@pytest.mark.parametrize("answer", ["yes", "no", "error"])
def test_spawned_workers_are_kept_while_they_are_fit(own_pool: Pool, eventually, answer: str) -> None:
    kind = replace(SPAWNED, fit=("worker_tasks:is_fit", answer))
    pids = [own_pool.run(kind, job("identify"), {}).answer["pid"] for _ in range(2)]
    assert (pids[0] == pids[1]) == (answer == "yes")
    own_pool.close()
    eventually(lambda: not any(map(running, pids)))


@pytest.mark.parametrize("kind", [KIND, SPAWNED], ids=["forked", "spawned"])
def test_temporary_files_go_with_their_worker(own_pool: Pool, kind: WorkerKind) -> None:
    left = own_pool.run(kind, job("leave_files"), {"folders": 3}, fresh=True).answer
    assert left["here"] == left["folder"]
    assert not Path(left["folder"]).exists()
    assert Path(left["folder"]).parent == own_pool.workspace.root / "tmp"


def test_a_worker_that_serves_many_programs_keeps_the_files_of_few(own_pool: Pool) -> None:
    kept = own_pool.run(KIND, job("leave_files"), {"folders": 2 * KEPT}).answer["made"]
    assert kept == [False] * KEPT + [True] * KEPT


# -- killed from outside -----------------------------------------------------------------------------------------------


def run_in_thread(pool: Pool, task: str, payload: dict[str, object], **settings: float):
    threads = ThreadPoolExecutor(1)
    future = threads.submit(pool.run, KIND, job(task), payload, **settings)
    threads.shutdown(wait=False)
    return future


def test_a_worker_killed_in_its_job_died_and_the_next_job_works(own_pool: Pool, tmp_path: Path, eventually) -> None:
    future = run_in_thread(own_pool, "hang", {"pid_file": str(tmp_path / "pid")})
    eventually((tmp_path / "pid").exists)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    report = future.result(timeout=120)
    assert (report.ending, report.detail) == ("died", "SIGKILL")
    assert own_pool.run(KIND, job("identify"), {}).ending == "done"


def test_a_worker_killed_between_jobs_is_not_the_next_jobs_fault(own_pool: Pool, eventually) -> None:
    pid = own_pool.run(KIND, job("identify"), {}).answer["pid"]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not running(pid))
    report = own_pool.run(KIND, job("identify"), {})
    assert report.ending == "done"
    assert report.answer["pid"] != pid


def test_a_killed_nursery_is_replaced(own_pool: Pool, eventually) -> None:
    worker = own_pool.run(KIND, job("identify"), {}).answer["pid"]
    nursery = psutil.Process(worker).ppid()
    os.kill(nursery, signal.SIGKILL)
    eventually(lambda: not running(worker))
    report = own_pool.run(KIND, job("identify"), {})
    assert report.ending == "done"
    assert psutil.Process(report.answer["pid"]).ppid() != nursery


def test_a_nursery_killed_during_a_job_is_not_the_jobs_fault(own_pool: Pool, tmp_path: Path, eventually) -> None:
    """The job is run again on another one, and nothing that it had started stays."""
    own_pool.run(KIND, job("identify"), {})
    pid, go = tmp_path / "pid", tmp_path / "go"
    payload = {"folder": str(tmp_path), "then": "wait_for", "pid_file": str(pid), "file": str(go)}
    future = run_in_thread(own_pool, "family_then", payload)
    eventually(pid.exists)
    first = int(pid.read_text())
    tagged = [int((tmp_path / name).read_text()) for name in FAMILY if name != "bare"]
    bare = int((tmp_path / "bare").read_text())  # a process without variables cannot be told from others
    os.kill(psutil.Process(first).ppid(), signal.SIGKILL)
    eventually(lambda: int(pid.read_text()) != first)
    eventually(lambda: not any(map(running, tagged)))
    os.kill(bare, signal.SIGKILL)
    go.touch()
    assert future.result(timeout=120).ending == "done"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_worker_ended_before_its_first_job_has_begun_is_replaced(
    own_pool: Pool, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Killed or stopped between its fork and its first job: as often as it takes, up to a limit."""
    monkeypatch.setattr(limits, "SEND_TIMEOUT", 0.5)
    monkeypatch.setattr(limits, "END_TIMEOUT", 0.5)
    fork, times = NurseryHandle.fork, [2]

    def unlucky(nursery: NurseryHandle, go_on: Callable[[], None]) -> WorkerHandle:
        worker = fork(nursery, go_on)
        if times[0]:
            times[0] -= 1
            os.kill(worker._pid, number)
        return worker

    monkeypatch.setattr(NurseryHandle, "fork", unlucky)
    # more than a socket holds, so that a process that does not read it is noticed
    report = own_pool.run(KIND, job("size"), {"text": "x" * (1 << 20)})
    assert (report.ending, report.answer) == ("done", {"size": 1 << 20})
    times[0] = 1000
    with pytest.raises(WorkerStartError, match="killed before it could begin, 3 times in a row"):
        own_pool.run(KIND, job("size"), {"text": "x" * (1 << 20)}, fresh=True)


def test_a_task_of_ours_whose_process_is_killed_is_run_again_a_few_times(own_pool: Pool, tmp_path: Path) -> None:
    assert own_pool.ask(KIND, job("dies_until"), {"folder": str(tmp_path), "times": 2}) == {"runs": 3}
    with pytest.raises(WorkerStartError, match="the step dies_until ended with died: SIGKILL"):
        own_pool.ask(KIND, job("dies_until"), {"folder": str(tmp_path), "times": 1000})
    assert len(list(tmp_path.iterdir())) < 3 + 2 * limits.STARTS


# -- stopped from outside ----------------------------------------------------------------------------------------------


def stopped_nursery(pool: Pool) -> psutil.Process:
    worker = pool.run(KIND, job("identify"), {}).answer["pid"]
    nursery = psutil.Process(worker).parent()
    assert nursery
    nursery.suspend()
    return nursery


def test_a_stopped_nursery_is_replaced(own_pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FORK_TIMEOUT", 0.5)
    nursery = stopped_nursery(own_pool)
    report = own_pool.run(KIND, job("identify"), {}, fresh=True)
    assert report.ending == "done"
    assert not running(nursery.pid)


def test_a_job_of_a_stopped_nursery_ends_in_time_and_nothing_stays(
    own_pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually
) -> None:
    monkeypatch.setattr(limits, "END_TIMEOUT", 0.5)
    nursery = stopped_nursery(own_pool)
    report = own_pool.run(KIND, job("hang"), {"pid_file": str(tmp_path / "pid")}, timeout=1.0)
    assert report.ending == "timeout"
    eventually(lambda: not running(int((tmp_path / "pid").read_text())) and not running(nursery.pid))
    assert own_pool.run(KIND, job("identify"), {}).ending == "done"


@pytest.mark.parametrize("fresh", [False, True], ids=["in its job", "waiting for a fork"])
def test_a_stopped_nursery_does_not_keep_an_interruption_waiting(
    own_pool: Pool, tmp_path: Path, eventually, fresh: bool
) -> None:
    stopped_nursery(own_pool)
    waiting = threading.Event()
    threads = ThreadPoolExecutor(1)
    future = threads.submit(
        lambda: (
            waiting.set(),
            own_pool.run(KIND, job("hang"), {"pid_file": str(tmp_path / "pid")}, fresh=fresh),
        )
    )
    eventually(waiting.is_set if fresh else (tmp_path / "pid").exists)
    eventually(lambda: (own_pool.interrupt(), future.done())[1])  # as a hunt does: again and again
    with pytest.raises(PoolInterrupted):
        future.result()
    threads.shutdown()


def test_a_stopped_keeper_does_not_keep_a_pool_from_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "END_TIMEOUT", 0.5)
    pool = Pool()
    pool.run(KIND, job("identify"), {})
    assert pool._keeper
    os.kill(pool._keeper._process.pid, signal.SIGSTOP)
    pool.close()
    assert not pool.workspace.root.exists()


# -- families ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["hang", "segfault", "leave", "eat_memory"])
def test_nothing_that_a_failed_task_started_stays(pool: Pool, tmp_path: Path, then: str, eventually) -> None:
    payload = {"folder": str(tmp_path), "then": then, "code": 1}
    report = pool.run(KIND, job("family_then"), payload, timeout=4, memory_limit=600 << 20)
    assert report.ending == {"hang": "timeout", "eat_memory": "memory"}.get(then, "died")
    pids = read_pids(tmp_path)
    eventually(lambda: not any(map(running, pids)))


def test_children_of_a_finished_job_end_with_the_worker(own_pool: Pool, tmp_path: Path, eventually) -> None:
    report = own_pool.run(KIND, job("family_then"), {"folder": str(tmp_path), "then": "identify"})
    assert report.ending == "done"
    assert all(map(running, read_pids(tmp_path)))
    own_pool.close()
    eventually(lambda: not any(map(running, read_pids(tmp_path))))


# -- starting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["warm_raises", "warm_exits"])
def test_a_failed_import_is_told(pool: Pool, kind: str) -> None:
    text = {"warm_raises": "ImportError: libcompiler.so.1: cannot open", "warm_exits": "SystemExit: no licence"}[kind]
    with pytest.raises(WorkerStartError, match=text):
        pool.run(warmed_by(kind), job("identify"), {})


def test_a_missing_module_is_told(pool: Pool) -> None:
    kind = WorkerKind("missing", warm=(("no_such_compiler:warm", None),))
    with pytest.raises(WorkerStartError, match="No module named 'no_such_compiler'"):
        pool.run(kind, job("identify"), {})


def test_an_import_that_kills_the_process_is_told(pool: Pool) -> None:
    with pytest.raises(WorkerStartError, match=r"died while starting \(SIGKILL\). about to go"):
        pool.run(warmed_by("warm_kills_itself"), job("identify"), {})


def test_a_process_killed_while_it_starts_is_started_again(own_pool: Pool, tmp_path: Path) -> None:
    kind = warmed_by("warm_kills_itself_until", (str(tmp_path), limits.STARTS - 1))
    assert own_pool.run(kind, job("identify"), {}).ending == "done"
    assert len(list(tmp_path.iterdir())) == limits.STARTS - 1


def test_an_import_that_hangs_is_ended(tmp_path: Path, eventually) -> None:
    pid_file = tmp_path / "pid"
    with Pool(start_timeout=5.0) as pool, pytest.raises(WorkerStartError, match="not imported within 5 s"):
        pool.run(warmed_by("warm_hangs", str(pid_file)), job("identify"), {})
    assert not running(int(pid_file.read_text()))
    assert not running(int(Path(f"{pid_file}.child").read_text()))


# -- many at once ------------------------------------------------------------------------------------------------------


def test_threads_share_a_pool(own_pool: Pool) -> None:
    def right(n: int) -> bool:
        task = ("identify", "identify", "identify", "segfault", "leave")[n % 5]
        report = own_pool.run(KIND, job(task), {"n": n, "code": n}, fresh=n % 7 == 0)
        if task == "identify":
            return report.answer.get("n") == n
        return report.detail == ("SIGSEGV" if task == "segfault" else f"exit code {n}")

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(right, range(80)))
    assert len(nurseries_below(os.getpid(), own_pool)) == 1


def nurseries_below(pid: int, pool: Pool) -> list[psutil.Process]:
    root = str(pool.workspace.root)
    return [p for p in psutil.Process(pid).children() if p.environ().get("DRIFTLINE_WORKER", "").startswith(root)]


def test_interrupt_ends_running_jobs_and_the_pool_stays_usable(own_pool: Pool, tmp_path: Path, eventually) -> None:
    future = run_in_thread(own_pool, "hang", {"pid_file": str(tmp_path / "pid")})
    eventually((tmp_path / "pid").exists)
    own_pool.interrupt()
    with pytest.raises(PoolInterrupted):
        future.result(timeout=120)
    assert own_pool.run(KIND, job("identify"), {}).ending == "done"


@pytest.mark.parametrize("end", [Pool.interrupt, Pool.close])
def test_a_job_whose_worker_is_still_starting_is_ended_too(
    end: Callable[[Pool], None], own_pool: Pool, tmp_path: Path, eventually
) -> None:
    kind = warmed_by("warm_hangs", str(tmp_path / "pid"))
    with ThreadPoolExecutor(2) as threads:  # the second waits for the first to start it
        jobs = [threads.submit(own_pool.run, kind, job("identify"), {}) for _ in range(2)]
        eventually((tmp_path / "pid.child").exists)
        end(own_pool)
        for future in jobs:
            with pytest.raises(PoolInterrupted):
                future.result(timeout=120)
    for name in ("pid", "pid.child"):
        eventually(lambda name=name: not running(int((tmp_path / name).read_text())))


def test_a_job_that_begins_after_an_interruption_has_another_worker(
    own_pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually
) -> None:
    """The interrupted job may end by itself, before its worker is killed."""
    pid, go = tmp_path / "pid", tmp_path / "go"
    before = run_in_thread(own_pool, "wait_for", {"pid_file": str(pid), "file": str(go)})
    eventually(pid.exists)
    interrupt, dismiss = WorkerHandle.interrupt, WorkerHandle.dismiss
    interrupted: list[WorkerHandle] = []
    dismissed: list[WorkerHandle] = []

    def late(worker: WorkerHandle) -> None:
        go.touch()
        assert before.result(timeout=120).ending == "done"
        interrupted.append(worker)
        interrupt(worker)

    def noted(worker: WorkerHandle) -> None:
        dismissed.append(worker)
        dismiss(worker)

    monkeypatch.setattr(WorkerHandle, "interrupt", late)
    monkeypatch.setattr(WorkerHandle, "dismiss", noted)
    own_pool.interrupt()
    assert interrupted and dismissed == interrupted, "its files and its channel must go too"
    assert own_pool.run(KIND, job("identify"), {}).ending == "done"


def test_a_job_that_begins_after_an_interruption_has_another_nursery(
    own_pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually
) -> None:
    """The nursery may be ready before it is killed."""
    kind = warmed_by("warm_waits", str(tmp_path / "nursery"))
    pid, go = tmp_path / "pid", tmp_path / "go"
    interrupt = NurseryHandle.interrupt
    with ThreadPoolExecutor(2) as threads:
        before = threads.submit(own_pool.run, kind, job("identify"), {})
        eventually((tmp_path / "nursery").exists)

        def late(nursery: NurseryHandle) -> None:
            (tmp_path / "nursery.go").touch()
            with pytest.raises(PoolInterrupted):
                before.result(timeout=120)
            after.append(threads.submit(own_pool.run, kind, job("wait_for"), {"pid_file": str(pid), "file": str(go)}))
            eventually(pid.exists)
            interrupt(nursery)

        after: list[Future[TaskReport]] = []
        monkeypatch.setattr(NurseryHandle, "interrupt", late)
        own_pool.interrupt()
        go.touch()
        assert after[0].result(timeout=120).ending == "done"
    assert len(nurseries_below(os.getpid(), own_pool)) == 1


def test_a_job_that_waits_for_a_worker_when_the_pool_is_closed_starts_none(
    own_pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, eventually
) -> None:
    kind = warmed_by("warm_hangs", str(tmp_path / "pid"))
    destroy = NurseryHandle.destroy

    def late(nursery: NurseryHandle) -> None:
        eventually(lambda: not own_pool.workspace.root.exists())
        destroy(nursery)

    monkeypatch.setattr(NurseryHandle, "destroy", late)
    with ThreadPoolExecutor(2) as threads:
        jobs = [threads.submit(own_pool.run, kind, job("identify"), {}) for _ in range(2)]
        eventually((tmp_path / "pid.child").exists)
        own_pool.close()
        for future in jobs:
            with pytest.raises(PoolInterrupted):
                future.result(timeout=120)


def test_closing_a_pool_ends_its_jobs(tmp_path: Path, eventually) -> None:
    pool = Pool()
    future = run_in_thread(pool, "hang", {"pid_file": str(tmp_path / "pid")})
    eventually((tmp_path / "pid").exists)
    pool.close()
    with pytest.raises(PoolInterrupted):
        future.result(timeout=120)
    with pytest.raises(PoolInterrupted):
        pool.run(KIND, job("identify"), {})
    assert not pool.workspace.root.exists()


def test_nothing_leaks_over_many_jobs(own_pool: Pool) -> None:
    def use(count: int) -> None:
        for n in range(count):
            task = "leave" if n % 10 == 0 else "identify"
            own_pool.run(KIND, job(task), {"code": 1}, fresh=n % 15 == 0)

    def inventory() -> tuple[int, int, int]:
        (nursery,) = nurseries_below(os.getpid(), own_pool)
        return len(list(Path("/proc/self/fd").iterdir())), nursery.num_fds(), threading.active_count()

    use(20)
    before = inventory()
    use(300)
    assert inventory() == before
    assert len(list((own_pool.workspace.root / "logs").iterdir())) < 5


def test_what_runs_at_the_deadline_is_ended_and_nothing_more_begins(
    own_pool: Pool, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    first = own_pool.run(KIND, job("identify"), {})
    began = time.monotonic()
    own_pool.deadline = began + 1.0
    with pytest.raises(PoolExpired):
        own_pool.run(KIND, job("hang"), {"pid_file": str(tmp_path / "pid")})
    assert time.monotonic() - began >= 1.0
    eventually(lambda: not running(first.answer["pid"]))
    with pytest.raises(PoolExpired):
        own_pool.run(KIND, job("identify"), {})
    own_pool.deadline = math.inf
    assert own_pool.run(KIND, job("identify"), {}).ending == "done"


def test_a_worker_that_is_still_starting_ends_at_the_deadline(own_pool: Pool, tmp_path: Path) -> None:
    own_pool.deadline = time.monotonic() + 1.0
    with pytest.raises(PoolExpired):
        own_pool.run(warmed_by("warm_hangs", str(tmp_path / "pid")), job("identify"), {})


def test_a_worker_that_holds_on_to_much_memory_is_not_kept(own_pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GROWTH", 50 << 20)
    before = own_pool.run(KIND, job("identify"), {}).answer["pid"]
    assert own_pool.run(KIND, job("keep_memory"), {"bytes": 200 << 20}).answer["pid"] == before
    assert own_pool.run(KIND, job("identify"), {}).answer["pid"] != before
