"""Large files: cloned where the file system can, linked where nothing writes, copied only where nothing else is safe.

A hard link is for files of our own alone: a write into a user's file would change ours. It is not for the
data files of ONNX models either, which `onnx` refuses to read when they have a second name.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import BinaryIO

from driftline.core.handover import open_file
from driftline.core.private import new_part, sync_folder

BIG = 64 << 20  # bytes: files and weights of this size are linked, mapped and streamed
_FICLONE = 0x40049409  # linux/fs.h


def copy_file(source: Path, to: Path, *, link: bool = False, lasting: bool = False) -> None:
    """Make `to` hold what `source` holds, whole or not at all. `link`: both are ours, and one file may serve for both.
    `lasting`: it is on the disk, its name included, before this returns.

    A clone shares the disk's blocks until somebody writes (btrfs, XFS).
    """
    with open_file(source) as given, new_part(to) as (part, made):
        if not _clone(given, made):
            if link and lasting:
                os.fsync(given.fileno())  # before there is a link to it
            if not (link and _link(source, part)):
                shutil.copyfileobj(given, made, 8 << 20)
                made.flush()
        if lasting:
            os.fsync(made.fileno())
        os.replace(part, to)
    if lasting:
        sync_folder(to.parent)


def _clone(given: BinaryIO, made: BinaryIO) -> bool:
    try:
        fcntl.ioctl(made.fileno(), _FICLONE, given.fileno())
        return True
    except OSError:
        return False


def _link(source: Path, part: Path) -> bool:
    """Put a link in the place of a part."""
    other = part.with_name(f"{part.name}-link")
    try:
        os.link(source, other)
    except OSError:  # another file system, or one without links
        return False
    os.replace(other, part)
    return True
