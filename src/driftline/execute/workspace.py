"""A private folder for one run of Driftline: tensors in flight, logs, temporary files of compilers.

It is named after the process that owns it. A run that was killed leaves its folder behind; the next run removes
folders whose owner is gone.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import shutil
from pathlib import Path

import psutil

from driftline.core.config import cache_home
from driftline.core.errors import DriftlineError


class Workspace:
    """Folders for scratch files; removed with `close` or at exit."""

    def __init__(self) -> None:
        scratch = cache_home() / "scratch"
        self._owner = os.getpid()
        try:
            scratch.mkdir(parents=True, exist_ok=True)
            _sweep(scratch)
            started = int(psutil.Process().create_time())
            for attempt in itertools.count():
                self.root = scratch / f"{self._owner}-{started}-{attempt}"
                with contextlib.suppress(FileExistsError):
                    self.root.mkdir()
                    break
            for name in ("jobs", "logs", "tmp", "programs"):
                (self.root / name).mkdir()
        except OSError as error:
            raise DriftlineError(
                f"Cannot write to the cache folder {scratch}: {error.strerror}."
                " Make room there or set DRIFTLINE_CACHE to another folder."
            ) from error
        self._counter = itertools.count()
        atexit.register(self.close)

    def job_folder(self) -> Path:
        """A fresh folder for the files of one job."""
        folder = self.root / "jobs" / str(next(self._counter))
        folder.mkdir()
        return folder

    def log_path(self) -> Path:
        return self.root / "logs" / f"{next(self._counter)}.log"

    def close(self) -> None:
        if os.getpid() == self._owner:  # a fork must not remove its parent's files
            shutil.rmtree(self.root, ignore_errors=True)
            atexit.unregister(self.close)


def _sweep(scratch: Path) -> None:
    for folder in scratch.iterdir():
        pid, _, rest = folder.name.partition("-")
        if pid.isdigit() and not _alive(int(pid), rest.partition("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)


def _alive(pid: int, started: str) -> bool:
    try:
        return str(int(psutil.Process(pid).create_time())) == started
    except psutil.NoSuchProcess:
        return False
