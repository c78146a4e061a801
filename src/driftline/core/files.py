"""Copies large files: by cloning if the file system can, by linking if nothing writes to them, else byte by byte.

Hard links are only for Driftline's own files: a write into a linked user's file would change the copy. They are not
used for the data files of ONNX models either, which `onnx` refuses to read if they have a second name.
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
    """Copy `source` to `to`, whole or not at all. `link`: both files are Driftline's, so one may link to the other.
    `lasting`: the file and its name are on the disk before this returns.

    A clone shares the disk's blocks until one of the files is written to (btrfs, XFS).
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
    """Replace a part file by a link to the source; False if the file system cannot."""
    other = part.with_name(f"{part.name}-link")
    try:
        os.link(source, other)
    except OSError:  # on another file system, or without support for links
        return False
    os.replace(other, part)
    return True
