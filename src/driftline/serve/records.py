"""The files of jobs, in the folder of the store: they remain after the server ends.

STORE/jobs/7/job.json        what was asked for, and the process that does it; written by the server
STORE/jobs/7/progress.json   how far it is, and how it ended; written by that process
STORE/jobs/7/log.txt         what that process and its workers said on stderr
STORE/jobs/7/model.onnx      the program of a check
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from driftline.core.errors import StoreError
from driftline.core.private import own_folder, read_plain, write_private
from driftline.core.wire import WireError, decode, encode
from driftline.serve.orders import CheckOrder, JobOrder

JOBS, JOB, PROGRESS, LOG = "jobs", "job.json", "progress.json", "log.txt"
LINES = 200  # the most lines of the job's log that are kept
INTERRUPTED = 130  # the exit code of an interrupted job
_MOST = 8 << 20  # bytes of a record that are read
T = TypeVar("T")


@dataclass(frozen=True)
class JobRecord:
    """A job as the server stores it: its order, and the process that runs it."""

    number: int
    order: JobOrder
    created: str
    plugins: tuple[str, ...] = ()
    causes: tuple[Path, ...] = ()
    pid: int = 0  # of the process that did it last; 0: none yet
    born: float = 0.0  # when that process began: another one may have its number by now


@dataclass(frozen=True)
class LaneRow:
    """The progress of a hunt on one target."""

    target: str
    programs: int = 0
    passed: int = 0
    failed: int = 0
    rejected: int = 0
    unjudged: int = 0


@dataclass(frozen=True)
class TargetRow:
    """The result of a check on one target; without a verdict, the target is still running."""

    target: str
    verdict: str = ""
    words: str = ""


@dataclass(frozen=True)
class SeenBug:
    """A bug that a job met."""

    id: str
    kind: str
    detail: str
    new: bool


@dataclass(frozen=True)
class JobProgress:
    """The progress of a job, as written to `progress.json`."""

    doing: str = ""
    began: float = 0.0  # a Unix time, minus the time spent before the job was resumed
    seconds: float = 0.0  # the budget; 0: none
    number: int = 0  # of the hunt or audit in the store, when it began
    run: str = ""  # its name there: numbers change when stores are merged
    lanes: tuple[LaneRow, ...] = ()
    targets: tuple[TargetRow, ...] = ()
    bugs: tuple[SeenBug, ...] = ()
    lines: tuple[str, ...] = ()
    code: int | None = None  # the exit code, as that of the command; none while it runs
    outcome: str = ""  # in a sentence
    ended: float = 0.0


def folder_of(store: Path, number: int) -> Path:
    return store / JOBS / str(number)


def numbers(store: Path) -> list[int]:
    """Return the numbers of the existing jobs, newest first."""
    if (store / JOBS).is_symlink():
        return []
    try:
        found = [path for path in (store / JOBS).iterdir() if not path.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    names = [path.name for path in found if path.name.isascii() and path.name.isdigit()]
    return sorted((int(name) for name in names if str(int(name)) == name), reverse=True)


def new_folder(store: Path) -> tuple[int, Path]:
    """Create the folder of a new job; returns its number and the folder."""
    own_folder(store / JOBS)
    number = max(numbers(store), default=0) + 1
    while True:
        with contextlib.suppress(FileExistsError):
            folder_of(store, number).mkdir(mode=0o700)
            return number, folder_of(store, number)
        number += 1


def save(folder: Path, record: JobRecord) -> None:
    _save(folder / JOB, JobRecord, record)


def save_progress(folder: Path, progress: JobProgress) -> None:
    _save(folder / PROGRESS, JobProgress, progress)


def load(folder: Path) -> JobRecord | None:
    """Load the record of a job, or None if it is missing or damaged, or names a file outside of the job's folder."""
    found = None if folder.is_symlink() or folder.parent.is_symlink() else _load(folder / JOB, JobRecord)
    if found and isinstance(found.order, CheckOrder) and Path(found.order.file).name != found.order.file:
        return None
    return found if found and str(found.number) == folder.name else None


def load_progress(folder: Path) -> JobProgress:
    return _load(folder / PROGRESS, JobProgress) or JobProgress()


def _save(path: Path, kind: type[T], value: T) -> None:
    try:
        write_private(path, [json.dumps(encode(kind, value)).encode()])
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}. Make room, or name another --store.") from error


def _load(path: Path, kind: type[T]) -> T | None:
    try:
        return decode(kind, json.loads(read_plain(path, _MOST)))
    except (OSError, ValueError, RecursionError, WireError):
        return None
