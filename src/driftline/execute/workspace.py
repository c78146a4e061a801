"""A private folder for one run of Driftline: tensors in transit, logs, temporary files of compilers.

Workers, which run untrusted programs, may write below `tmp` and `compilers`, which no other process reads, and create
plain files below `jobs`, where the parent reads and writes too. They cannot replace these folders, nor touch the
others: `logs`, `programs`, and `nursery`, for temporary files of processes without a sandbox.

A worker finds its own job and its own temporary files, and not those of others: nobody may list `jobs`, `tmp` and
`logs`, the names in them are random, and a worker is told its own alone. Workers cannot change modes
(`execute/seccomp.py`).

The run holds a lock beside its folder. A killed run leaves the folder and loses the lock; the next run removes every
folder whose lock is free. (Process ids would not work: they are reused, and those of another container are invisible.)
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import secrets
import sys
from pathlib import Path

from driftline.core.config import cache_home
from driftline.core.errors import DriftlineError
from driftline.core.handover import make_folder, share, unshare
from driftline.core.private import lock, open_lock, private_folder
from driftline.core.removal import remove_tree

_LOCK = ".lock"
_JOBS = "jobs"
_OF_WORKERS = ("tmp", "compilers")
_UNLISTED = 0o300  # the mode of folders whose names inside are random: who is not told a name does not find it


class Workspace:
    """The scratch folders of one run; removed with `close` or at exit."""

    def __init__(self) -> None:
        scratch = cache_home() / "scratch"
        self._owner = os.getpid()
        try:
            private_folder(scratch)
            _sweep(scratch)
            self.root = scratch / f"run-{self._owner}-{secrets.token_hex(4)}"
            self._lock = _acquire(self.root.with_name(self.root.name + _LOCK), create=True)
            self.root.mkdir(mode=0o700)
            for name in ("compilers", "programs", "nursery"):
                (self.root / name).mkdir(mode=0o700)
            for name in ("tmp", _JOBS, "logs"):
                (self.root / name).mkdir(mode=_UNLISTED)
            self._jobs = self.root / _JOBS
            share(self.root)
        except OSError as error:
            raise DriftlineError(
                f"Cannot write to the cache folder {scratch}: {error.strerror}."
                " Make room there or set DRIFTLINE_CACHE to another folder."
            ) from error
        self._counter = itertools.count()
        atexit.register(self.close)

    def job_folder(self) -> Path:
        """Make a new folder for the files of one job."""
        folder = self._jobs / secrets.token_hex(8)  # random, so that workers cannot guess and create it
        make_folder(folder)
        return folder

    @property
    def nursery_folder(self) -> Path:
        """The folder for temporary files of nurseries. No worker may write there, since nurseries load code that they
        compile."""
        return self.root / "nursery"

    def log_path(self) -> Path:
        return self.root / "logs" / f"{next(self._counter)}-{secrets.token_hex(4)}.log"

    def close(self) -> None:
        if os.getpid() == self._owner and self._lock is not None:  # a forked process must not remove its parent's files
            _remove(self.root, self._lock)
            self._lock = None
            unshare(self.root)
            atexit.unregister(self.close)


def temporary_folder(log: Path) -> Path:
    """Return the folder for temporary files of the worker with this log; it is removed with the log when the worker has
    ended."""
    return log.parent.parent / "tmp" / log.stem


def writable_by_workers(log: Path) -> list[Path]:
    """Return the folders in which the worker with this log may create anything."""
    return [log.parent.parent / name for name in _OF_WORKERS]


def shared_with_parent(log: Path) -> Path:
    """Return the folder in which the worker with this log may create plain files, which the parent reads."""
    return log.parent.parent / _JOBS


def compiler_caches_of(log: Path) -> Path:
    """Return the folder for the compiler caches of the worker with this log; all workers of a run share it."""
    return log.parent.parent / "compilers"


def _acquire(path: Path, *, create: bool) -> int | None:
    """Open and lock a file; return its descriptor, or None if another process holds the lock or the file is gone."""
    try:
        fd = open_lock(path, os.O_CREAT if create else 0)
    except FileNotFoundError:
        return None
    except DriftlineError:
        if create:
            raise
        return None  # a link: not a lock of Driftline
    try:
        lock(fd, wait=create)
        if os.fstat(fd).st_ino == path.lstat().st_ino:
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(fd)
    # A sweep may have removed the file between opening and locking; it closes the file at once.
    return _acquire(path, create=True) if create else None


def _remove(folder: Path, held: int) -> None:
    """Remove the folder, and then its lock: while the folder exists, its lock must too. A folder that cannot be removed
    is renamed and kept, so that no later run tries again."""
    if not remove_tree(folder):
        aside = folder.with_name(f"left-{folder.name}")
        with contextlib.suppress(OSError):
            os.rename(folder, aside)
        print(f"driftline: {aside} could not be removed, and may be removed by hand.", file=sys.stderr)
    with contextlib.suppress(OSError):
        os.unlink(folder.with_name(folder.name + _LOCK))
    os.close(held)


def _sweep(scratch: Path) -> None:
    for path in scratch.glob(f"run-*{_LOCK}"):
        held = _acquire(path, create=False)
        if held is not None:
            _remove(path.with_name(path.name.removesuffix(_LOCK)), held)
