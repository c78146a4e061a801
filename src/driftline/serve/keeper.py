"""The jobs of a server: starts them within the available cores, watches, stops and resumes them.

A job is a child process (`child.py`) in its own session. Everything that the server knows about jobs is stored in the
store's folder (`records.py`), so a restarted server finds the jobs that are still running, by the number and start time
of their process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from driftline.core.errors import DriftlineError
from driftline.core.private import open_private, read_end, reading
from driftline.core.text import tail
from driftline.serve import records
from driftline.serve.orders import JobOrder, typed_command
from driftline.serve.records import JobProgress, JobRecord
from driftline.serve.settings import ServeSettings
from driftline.store.store import now

WAITING, RUNNING, STOPPING, STOPPED, DONE, FAILED = "waiting", "running", "stopping", "stopped", "done", "failed"
LOG = 8_000  # characters of a log that a page shows
# Seconds. When a process was born is reckoned from when the machine was, in whole seconds by a clock that is set.
_SAME_BIRTH = 5.0
_PATIENCE = 20.0  # seconds that jobs have to stop when the server ends
_DIED = "Its process died; what it had found is in the store."
_CHILD = "driftline.serve.child"
_OVER = (0, 1, 5)  # exit codes of work that came to its end


@dataclass(frozen=True)
class JobView:
    """A job as the pages show it."""

    record: JobRecord
    progress: JobProgress
    state: str
    command: str
    log: str = ""

    @property
    def number(self) -> int:
        return self.record.number

    @property
    def over(self) -> bool:
        return self.state in (STOPPED, DONE, FAILED)

    @property
    def spent(self) -> float:
        """Seconds that the job has run, including the time before it was resumed."""
        if not self.progress.began:
            return 0.0
        return max(0.0, (self.progress.ended or time.time()) - self.progress.began)

    @property
    def share(self) -> float | None:
        """The share of the job's time or targets that is done, from 0 to 1, or None if it is not known."""
        if self.progress.targets:
            return sum(bool(row.verdict) for row in self.progress.targets) / len(self.progress.targets)
        return min(1.0, self.spent / self.progress.seconds) if self.progress.seconds else None

    @property
    def outcome(self) -> str:
        if self.progress.outcome or self.state != STOPPED:
            return self.progress.outcome
        return _DIED if self.record.pid else "It was not started."


class JobKeeper:
    """All jobs of a store. Thread-safe."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._store = settings.store.resolve()
        self._lock = threading.RLock()
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._waiting: list[int] = []
        self._stopping: set[int] = set()

    # -- looking -----------------------------------------------------------------------------------------------------

    def jobs(self, most: int | None = None) -> list[JobView]:
        """Return the jobs, newest first; at most `most` of them."""
        found = (self._job(number) for number in records.numbers(self._store)[:most])
        return [job for job in found if job]

    def job(self, number: int) -> JobView:
        found = self._job(number)
        if found is None:
            raise UnknownJob(f"There is no job {number} in the store {self._settings.store}.")
        log = records.folder_of(self._store, number) / records.LOG
        with contextlib.suppress(OSError):
            return replace(found, log=tail(read_end(log, 4 * LOG).decode("utf-8", "replace"), LOG).strip())
        return found

    def _job(self, number: int) -> JobView | None:
        folder = records.folder_of(self._store, number)
        with self._lock:
            record = records.load(folder)
            if record is None:
                return None
            state = self._state(record)
        progress = records.load_progress(folder)  # after it is known whether it runs: its end is written by then
        if state == STOPPED and progress.code is not None:
            state = DONE if progress.code in _OVER else STOPPED if progress.code == records.INTERRUPTED else FAILED
        typed = typed_command(record.order, folder, self._settings.store, record.plugins)
        return JobView(record, progress, state, typed)

    def _state(self, record: JobRecord) -> str:
        if record.number in self._waiting:
            return WAITING
        if self._process(record):
            return STOPPING if record.number in self._stopping else RUNNING
        self._stopping.discard(record.number)
        return STOPPED

    def _process(self, record: JobRecord) -> psutil.Process | None:
        """Return the running process of a job, or None."""
        child = self._children.get(record.number)
        if child is not None and child.poll() is not None:
            del self._children[record.number]
            return None
        if not record.pid:
            return None
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(record.pid)
            same = abs(process.create_time() - record.born) < _SAME_BIRTH and _does(process, record.number)
            if same and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None

    # -- doing -------------------------------------------------------------------------------------------------------

    def start(self, order: JobOrder, fill: Callable[[Path], None] = lambda folder: None) -> int:
        """Create a job and return its number; `fill` writes the files that it needs into its folder. It starts as soon
        as enough cores are free."""
        number, folder = records.new_folder(self._store)
        try:
            fill(folder)
            records.save(folder, JobRecord(number, order, now()))
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return self._queue(number)

    def again(self, number: int) -> int:
        """Start a new job with the same order as a finished one, and return its number."""
        old = self._over(number, "start it again")
        source = records.folder_of(self._store, number)
        file = getattr(old.record.order, "file", "")
        return self.start(old.record.order, lambda folder: _copy(source, folder, file) if file else None)

    def resume(self, number: int) -> int:
        if self._over(number, "resume it").state != STOPPED:
            raise DriftlineError(f"The job {number} has come to its end; start it again.")
        return self._queue(number)

    def stop(self, number: int) -> None:
        """Interrupt a job as Ctrl-C does; a second call kills it."""
        with self._lock:
            record = self.job(number).record
            if number in self._waiting:
                self._waiting.remove(number)
                return
            process = self._process(record)
            if process is None:
                return  # it has just come to its end
            hard = number in self._stopping
            self._stopping.add(number)
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL if hard else signal.SIGINT)

    def remove(self, number: int) -> None:
        """Delete a finished job. Its findings stay in the store."""
        self._over(number, "remove it")
        shutil.rmtree(records.folder_of(self._store, number), ignore_errors=True)

    def _over(self, number: int, what: str) -> JobView:
        job = self.job(number)
        if not job.over:
            raise DriftlineError(f"The job {number} is {job.state}; stop it, and then {what}.")
        return job

    def _queue(self, number: int) -> int:
        with self._lock:
            if number not in self._waiting:
                self._waiting.append(number)
        self.advance()
        return number

    def advance(self) -> None:
        """Start waiting jobs, in the order in which they were requested, while cores are free."""
        with self._lock:
            for child in self._children.values():
                child.poll()  # reap ended children
            while self._waiting:
                record = records.load(records.folder_of(self._store, self._waiting[0]))
                if record is None:
                    self._waiting.pop(0)
                    continue
                busy = sum(job.record.order.jobs for job in self.jobs() if job.state in (RUNNING, STOPPING))
                if busy and busy + record.order.jobs > self._settings.cores:
                    return
                self._waiting.pop(0)
                self._spawn(record)

    def _spawn(self, record: JobRecord) -> None:
        folder = records.folder_of(self._store, record.number)
        record = self._trusted(record)
        records.save(folder, record)
        log = open_private(folder / records.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            child = subprocess.Popen(
                [sys.executable, "-m", _CHILD, str(self._settings.store), str(record.number)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal of the server is for the server
            )
        finally:
            os.close(log)
        self._children[record.number] = child
        born = time.time()
        with contextlib.suppress(psutil.Error):
            born = psutil.Process(child.pid).create_time()
        records.save(folder, replace(record, pid=child.pid, born=born))

    def _trusted(self, record: JobRecord) -> JobRecord:
        """Return the record with this server's plugins and causes. Those named in the store are not loaded, since
        someone else may have written it."""
        plugins = tuple(str(Path(path).resolve()) for path in self._settings.plugins)
        return replace(record, plugins=plugins, causes=tuple(path.resolve() for path in self._settings.causes))

    def close(self, say: Callable[[str], None] = lambda line: None) -> None:
        """Stop all jobs. The next server can resume them."""
        with self._lock:
            self._waiting.clear()
            running = [job.number for job in self.jobs() if job.state in (RUNNING, STOPPING)]
        if running:
            say(f"Stopping {len(running)} job{'s' * (len(running) > 1)}; they can be resumed.")
        for number in running:
            if number not in self._stopping:
                self.stop(number)
        until = time.monotonic() + _PATIENCE
        while (left := [n for n in running if not self.job(n).over]) and time.monotonic() < until:
            time.sleep(0.05)
        for number in left:
            self.stop(number)  # the second time, at once


class UnknownJob(DriftlineError):
    """Raised for a number that no job has."""


def _does(process: psutil.Process, number: int) -> bool:
    """True if the process runs the job with this number. The record may come from someone else and name any process."""
    words = process.cmdline()
    return _CHILD in words and words[-1] == str(number)


def _copy(source: Path, folder: Path, name: str) -> None:
    try:
        with reading(source / name) as given, open(open_private(folder / name), "wb") as made:
            shutil.copyfileobj(given, made)
    except OSError as error:
        raise DriftlineError(f"{source / name} cannot be read: {error.strerror}. Upload the program again.") from error
