"""Large files: cloned where the file system can, linked where nobody writes, copied only where nothing else is safe.

A hard link is for files of our own alone: whoever writes into a user's file would write into ours. It is not for the
data files of ONNX models either, which `onnx` refuses to read when they have a second name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from pathlib import Path

BIG = 64 << 20  # bytes: files and weights of this size are linked, mapped and streamed
_FICLONE = 0x40049409  # linux/fs.h


def copy_file(source: Path, to: Path, *, link: bool = False) -> None:
    """Make `to` hold what `source` holds, whole or not at all. `link`: both are ours, and one file may serve for both.

    A clone shares the disk's blocks until somebody writes (btrfs, XFS); elsewhere the kernel copies, without a detour
    through this process.
    """
    part = to.with_name(f".part-{os.getpid()}-{to.name}")
    part.unlink(missing_ok=True)
    try:
        if not _clone(source, part) and not (link and _link(source, part)):
            shutil.copyfile(source, part)
        os.replace(part, to)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _clone(source: Path, to: Path) -> bool:
    try:
        with open(source, "rb") as given, open(to, "wb") as made:
            fcntl.ioctl(made.fileno(), _FICLONE, given.fileno())
        return True
    except OSError:
        to.unlink(missing_ok=True)
        return False


def _link(source: Path, to: Path) -> bool:
    try:
        os.link(source, to)
        return True
    except OSError:  # another file system, or one without links
        return False
