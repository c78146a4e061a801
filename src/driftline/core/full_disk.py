"""A disk without room: not a bug. It ends what is going on with one sentence, and is never called a compiler's."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from driftline.core.errors import DriftlineError, chain

_CODES = (errno.ENOSPC, errno.EDQUOT)
_SAID = "No space left on device"
_LEAST = 1 << 20  # bytes: with less nothing works


class DiskFull(DriftlineError):
    """A disk that Driftline writes to is full."""


def no_room(error: BaseException) -> bool:
    """Did this go wrong because a disk is full? Compilers and their tools say it in many ways."""
    return any(
        (isinstance(one, OSError) and one.errno in _CODES) or _SAID in str(one) for one in chain(error, context=True)
    )


def is_full(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        state = os.statvfs(folder)
        return state.f_bavail * state.f_frsize < _LEAST
    return False


def refuse_full(folder: Path, said: str = "") -> None:
    """Raise when the disk of the cache is full, or somebody `said` so."""
    if _SAID in said or is_full(folder):
        raise disk_full(folder)


def disk_full(folder: Path) -> DiskFull:
    return DiskFull(
        f"The disk that holds {folder} is full; make room there or set DRIFTLINE_CACHE to another folder. Everything"
        " found so far is in the store."
    )
