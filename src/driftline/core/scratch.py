"""Folders for files that a worker needs while it runs a program. Only the newest are kept.

A worker runs thousands of programs, and its temporary folder is removed only when it ends: without this limit, its
files would grow during a hunt.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

KEPT = 64  # the newest of a process; a program of a batch is finished long before so many others follow

_made: dict[Path, None] = {}  # oldest first


def scratch_folder(name: str) -> Path:
    """Return a folder of this name among the temporary files; it is removed after this process has asked for some
    dozens more."""
    folder = Path(tempfile.gettempdir()) / name
    folder.mkdir(parents=True, exist_ok=True)
    _made.pop(folder, None)
    _made[folder] = None
    while len(_made) > KEPT:
        oldest = next(iter(_made))
        del _made[oldest]
        shutil.rmtree(oldest, ignore_errors=True)
    return folder
