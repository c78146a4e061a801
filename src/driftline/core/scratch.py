"""Folders for what a worker needs while it runs a program, such as the program's own files. Few are kept.

A worker serves thousands of programs, and its folder for temporary files is removed when it ends: what it writes for
each would otherwise grow with every hour of a hunt.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

KEPT = 64  # the newest of a process; a program of a batch is done with long before so many have followed it

_made: dict[Path, None] = {}  # oldest first


def scratch_folder(name: str) -> Path:
    """A folder of this name among the temporary files; it stays until this process has asked for some dozens more."""
    folder = Path(tempfile.gettempdir()) / name
    folder.mkdir(parents=True, exist_ok=True)
    _made.pop(folder, None)
    _made[folder] = None
    while len(_made) > KEPT:
        oldest = next(iter(_made))
        del _made[oldest]
        shutil.rmtree(oldest, ignore_errors=True)
    return folder
