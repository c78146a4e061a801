"""The pool: runs tasks in isolated worker processes and reports what became of them.

A *nursery* process is kept for each kind of worker (an interpreter with certain modules warm); workers are forked from
it and reused until they fail or have served their share of jobs. See `worker.py` for the other side.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driftline.core.config import cache_home
from driftline.core.errors import InternalError
from driftline.core.text import tail
from driftline.execute.channel import Channel, ChannelClosed, ChannelTimeout, channel_pair
from driftline.execute.processes import describe_exit, kill_tree, reap, resident_memory
from driftline.execute.workspace import Workspace

START_TIMEOUT = 300.0  # a cold import of a large compiler on a busy machine
JOBS_PER_WORKER = 200
_TICK = 0.1


@dataclass(frozen=True)
class WorkerKind:
    """Which process is needed: an interpreter, what is imported before forking, and whether forking is safe."""

    name: str
    python: str = sys.executable
    warm: tuple[tuple[str, Any], ...] = ()  # functions to call before forking, each with its argument
    fork: bool = True
    variables: tuple[tuple[str, str], ...] = ()


class WorkerStartError(Exception):
    """The worker's modules could not be imported: the backend is not usable in that environment."""


@dataclass(frozen=True)
class Report:
    """How a task ended. `ending` is done, died, timeout or memory; only `done` has a result."""

    ending: str
    result: dict[str, Any] = field(default_factory=dict)
    stage: str = ""
    detail: str = ""
    log: str = ""
    seconds: float = 0.0
    peak_memory: int = 0


class Pool:
    """Hands out workers. Safe to use from several threads; a worker serves one job at a time."""

    def __init__(self, workspace: Workspace | None = None) -> None:
        self.workspace = workspace or Workspace()
        self._lock = threading.Lock()
        self._nurseries: dict[WorkerKind, _Nursery] = {}
        self._starting: dict[WorkerKind, threading.Lock] = defaultdict(threading.Lock)
        self._idle: dict[WorkerKind, list[_Worker]] = defaultdict(list)

    def run(
        self,
        kind: WorkerKind,
        task: str,
        payload: Mapping[str, Any],
        *,
        timeout: float = 300.0,
        memory_limit: int = 8 << 30,
        fresh: bool = False,
    ) -> Report:
        """Run one task to its end. Raises `WorkerStartError` when the worker cannot even start."""
        worker = self._acquire(kind, fresh)
        try:
            report = worker.run(task, payload, timeout, memory_limit)
        except BaseException:
            worker.kill()
            raise
        if report.ending == "done" and worker.jobs < JOBS_PER_WORKER and kind.fork:
            with self._lock:
                self._idle[kind].append(worker)
        else:
            worker.kill()
        return report

    def _acquire(self, kind: WorkerKind, fresh: bool) -> _Worker:
        if not fresh:
            with self._lock:
                idle = self._idle[kind]
                if idle:
                    return idle.pop()
        if not kind.fork:
            return _Nursery(kind, self.workspace).become_worker()
        try:
            return self._nursery(kind).fork()
        except (ChannelClosed, ChannelTimeout):  # somebody killed it: once more, from scratch
            with self._lock:
                lost = self._nurseries.pop(kind, None)
            if lost:
                lost.kill()
            return self._nursery(kind).fork()

    def _nursery(self, kind: WorkerKind) -> _Nursery:
        with self._lock:
            starting = self._starting[kind]
        with starting:  # two threads must not start the same nursery; other kinds may start meanwhile
            nursery = self._nurseries.get(kind)
            if nursery is None:
                nursery = _Nursery(kind, self.workspace)
                with self._lock:
                    self._nurseries[kind] = nursery
            return nursery

    def close(self) -> None:
        with self._lock:
            workers = [worker for idle in self._idle.values() for worker in idle]
            nurseries = list(self._nurseries.values())
            self._idle.clear()
            self._nurseries.clear()
        for worker in workers:
            worker.kill()
        for nursery in nurseries:
            nursery.kill()
        self.workspace.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Nursery:
    """The parent's handle on a nursery process."""

    def __init__(self, kind: WorkerKind, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._exits: dict[int, dict[str, Any]] = {}
        self._control, theirs = channel_pair()
        log = workspace.log_path()
        with theirs:
            self._process = subprocess.Popen(
                [kind.python, "-c", _BOOTSTRAP, str(theirs.fileno()), str(log), _package_root(kind.python)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=_environment(kind, workspace),
                cwd=workspace.root / "tmp",
                start_new_session=True,
            )
        try:
            self._control.send({"warm": list(kind.warm)})
            answer = self._control.receive(START_TIMEOUT)
        except (ChannelClosed, ChannelTimeout) as error:
            self.kill()
            raise WorkerStartError(
                f"{kind.name}: the process did not start ({type(error).__name__}). {_read(log)}"
            ) from error
        if not answer["ready"]:
            self.kill()
            raise WorkerStartError(answer["error"])

    def fork(self) -> _Worker:
        log = self._workspace.log_path()
        channel, theirs = channel_pair()
        with theirs, self._lock:
            self._control.send({"op": "fork", "log": str(log)}, theirs.fileno())
            pid = self._await("forked", START_TIMEOUT)["forked"]
        return _Worker(channel, pid, log, self)

    def become_worker(self) -> _Worker:
        log = self._workspace.log_path()
        channel, theirs = channel_pair()
        with theirs:
            self._control.send({"op": "serve", "log": str(log)}, theirs.fileno())
        return _Worker(channel, self._process.pid, log, self, own=True)

    def exit_of(self, pid: int, timeout: float = 5.0) -> dict[str, Any] | None:
        """How a worker ended, once it has; `None` when the nursery is gone too."""
        with self._lock:
            deadline = time.monotonic() + timeout
            with contextlib.suppress(ChannelClosed, ChannelTimeout):
                while pid not in self._exits:
                    self._await("exited", max(deadline - time.monotonic(), 0.0))
            return self._exits.pop(pid, None)

    def own_exit(self) -> dict[str, Any]:
        code = self._process.wait()
        return {"status": -code if code < 0 else code << 8, "peak_memory": 0}

    def _await(self, key: str, timeout: float) -> dict[str, Any]:
        while True:
            message = self._control.receive(timeout)
            if "exited" in message:
                self._exits[message["exited"]] = message
            if key in message:
                return message

    def kill(self) -> None:
        self._control.close()
        reap(self._process)


class _Worker:
    """The parent's handle on a worker process."""

    def __init__(self, channel: Channel, pid: int, log: Path, nursery: _Nursery, own: bool = False) -> None:
        self._channel = channel
        self._pid = pid
        self._log = log
        self._nursery = nursery
        self._own = own  # the nursery process became this worker
        self.jobs = 0

    def run(self, task: str, payload: Mapping[str, Any], timeout: float, memory_limit: int) -> Report:
        self.jobs += 1
        started = time.monotonic()
        stage = ""
        peak = 0
        try:
            self._channel.send({"task": task, "payload": dict(payload)})
            for message in self._messages(started + timeout, memory_limit):
                if "resident" in message:
                    peak = max(peak, message["resident"])
                elif "stage" in message:
                    stage = message["stage"]
                elif "ending" in message:
                    self.kill()
                    return self._report(message["ending"], started, stage, message["detail"], peak)
                else:
                    return self._finish(message, started, stage)
        except ChannelClosed:
            pass
        ending = self._nursery.own_exit() if self._own else self._nursery.exit_of(self._pid)
        detail = describe_exit(ending["status"]) if ending else "killed from outside"
        peak = max(peak, ending["peak_memory"] if ending else 0)
        return self._report("died", started, stage, detail, peak)

    def _messages(self, deadline: float, memory_limit: int) -> Iterator[dict[str, Any]]:
        """Messages of the worker, and between them readings of its memory, until the time or the memory is up."""
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                yield {"ending": "timeout", "detail": "no answer in time"}
                return
            try:
                yield self._channel.receive(min(_TICK, remaining))
            except ChannelTimeout:
                resident = resident_memory(self._pid)
                yield {"resident": resident}
                if resident > memory_limit:
                    yield {"ending": "memory", "detail": f"used {resident >> 20} MiB of {memory_limit >> 20} MiB"}
                    return

    def _finish(self, message: dict[str, Any], started: float, stage: str) -> Report:
        peak = message["peak_memory"]
        if message.get("memory_error"):
            return self._report("memory", started, stage, "MemoryError", peak)
        if "error" in message:
            raise InternalError(f"{message['error']}\n{message['traceback']}")
        return self._report("done", started, stage, "", peak, message["result"])

    def _report(
        self,
        ending: str,
        started: float,
        stage: str,
        detail: str,
        peak: int,
        result: dict[str, Any] | None = None,
    ) -> Report:
        seconds = time.monotonic() - started
        return Report(ending, result or {}, stage, detail, _read(self._log), seconds, peak)

    def kill(self) -> None:
        self._channel.close()
        kill_tree(self._pid)
        if self._own:
            self._nursery.kill()


# Workers in other environments do not have Driftline installed: they find it through a folder with one link.
_BOOTSTRAP = (
    "import sys; root = sys.argv.pop(3); root and sys.path.insert(0, root);"
    " from driftline.execute.worker import main; main()"
)


def _package_root(python: str) -> str:
    if python == sys.executable:
        return ""
    package = Path(__file__).resolve().parents[1]
    link = cache_home() / "package" / "driftline"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink() or link.resolve() != package:
        part = link.with_name(f"driftline.{os.getpid()}")
        part.symlink_to(package)
        os.replace(part, link)
    return str(link.parent)


def _environment(kind: WorkerKind, workspace: Workspace) -> dict[str, str]:
    """The worker's variables: one thread, private caches, temporary files inside the workspace."""
    binaries = os.path.dirname(kind.python)
    caches = cache_home() / "compilers"
    variables = {
        **os.environ,
        "PATH": f"{binaries}:{os.environ.get('PATH', '')}",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PIP_REQUIRE_VIRTUALENV": "1",
        "TMPDIR": str(workspace.root / "tmp"),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **dict(kind.variables),
    }
    variables.pop("PYTHONPATH", None) if kind.python != sys.executable else None
    return variables


def _read(log: Path) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - 8000, 0))
            return tail(file.read().decode(errors="replace"))
    except OSError:
        return ""
