"""Detects full disks: the run ends with one sentence, and no compiler is blamed."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from driftline.core.errors import DriftlineError, chain

_CODES = (errno.ENOSPC, errno.EDQUOT)
_SAID = "No space left on device"
_LEAST = 1 << 20  # bytes: with less free space nothing works


class DiskFull(DriftlineError):
    """A disk that Driftline writes to is full."""


def no_room(error: BaseException) -> bool:
    """True if an error was caused by a full disk, in the many ways in which compilers and their tools report it."""
    return any(
        (isinstance(one, OSError) and one.errno in _CODES) or _SAID in str(one) for one in chain(error, context=True)
    )


def is_full(folder: Path) -> bool:
    """True if the disk of a folder has less than the least free space."""
    with contextlib.suppress(OSError):
        state = os.statvfs(folder)
        return state.f_bavail * state.f_frsize < _LEAST
    return False


def refuse_full(folder: Path, said: str = "") -> None:
    """Raise DiskFull if the disk of `folder` is full, or if the text `said` reports it."""
    if _SAID in said or is_full(folder):
        raise disk_full(folder)


def disk_full(folder: Path) -> DiskFull:
    """Return the error for a full disk."""
    return DiskFull(
        f"The disk that holds {folder} is full; make room there or set DRIFTLINE_CACHE to another folder. Everything"
        " found so far is in the store."
    )
