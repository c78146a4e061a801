"""Opens Driftline's own files: locks, objects, databases, scratch.

They are created for the user alone (0700 and 0600), in folders that belong to the user. A link in their place is
refused, not followed: otherwise anyone who may write to the folder could make Driftline overwrite any file of the user.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from driftline.core.errors import DriftlineError

_F_OFD_SETLK, _F_OFD_SETLKW = 37, 38  # of linux/fcntl.h
PART = ".part-"  # the beginning of the names of unfinished files


def private_folder(path: Path) -> Path:
    """Make a folder for the user alone, or use the existing one if it belongs to the user."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = path.stat()
    if state.st_uid != os.geteuid() and os.geteuid() != 0:
        raise PermissionError(errno.EACCES, "it belongs to another user", str(path))
    if state.st_uid == os.geteuid() and state.st_mode & 0o077:
        path.chmod(0o700)
    return path


def own_folder(path: Path) -> Path:
    """Make a folder inside one of Driftline's own. A link in its place is refused, since it may lead to any folder of
    the user."""
    if path.is_symlink():
        raise DriftlineError(f"{path} is a symbolic link, and Driftline does not write there. Remove it.")
    return private_folder(path)


def refuse_link(path: Path) -> None:
    """Raise DriftlineError if the path is a link, or anything but a plain file. A missing file is allowed."""
    try:
        state = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(state.st_mode):
        what = "a symbolic link" if stat.S_ISLNK(state.st_mode) else "not a plain file"
        raise DriftlineError(f"{path} is {what}, and Driftline does not write there. Remove it, and start again.")


def open_private(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Open one of Driftline's own files, readable by the user alone, without following a link; return its
    descriptor."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            refuse_link(path)
        raise
    state = os.fstat(fd)
    # A hard link could make Driftline write into another file of the user.
    if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1 or state.st_uid not in (os.geteuid(), 0):
        os.close(fd)
        raise DriftlineError(f"{path} is a link to another file, and Driftline does not write there. Remove it.")
    return fd


def open_lock(path: Path, flags: int = os.O_CREAT) -> int:
    """Open a file whose only use is to be locked; return its descriptor. Nobody may read it: a worker, which runs as
    the same user and may write nowhere here, cannot open it, and so cannot lock it."""
    fd = open_private(path, os.O_WRONLY | flags)
    with contextlib.suppress(OSError):  # of another user
        os.fchmod(fd, stat.S_IWUSR)
    return fd


def lock(fd: int, *, wait: bool = False) -> None:
    """Lock a file that is open for writing, until it is closed. Raises `BlockingIOError` if another process holds the
    lock, unless `wait`.

    Two locks are taken. Workers cannot take the first kind on any file (`execute/seccomp.py`). The second is the lock
    of older releases of Driftline; a worker can hold it on files that it can read, so it is not waited for.
    """
    everything = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(fd, _F_OFD_SETLKW if wait else _F_OFD_SETLK, everything)
    with contextlib.suppress(BlockingIOError) if wait else contextlib.nullcontext():
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """Open a plain file of a store for reading. Raises `OSError` for a link, a pipe or a device, as for a missing file,
    without following or waiting for it."""
    with os.fdopen(_open_to_read(path), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file", str(path))
        yield file


def read_plain(path: Path, most: int) -> bytes:
    """Return the content of a plain file of a store. Raises `OSError` if there are more than `most` bytes."""
    with reading(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(min(size, most) + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
    return data


def read_end(path: Path, most: int) -> bytes:
    """Return the last bytes of a plain file of a store, at most `most`."""
    with reading(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most)


def _open_to_read(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)


def write_private(path: Path, pieces: Iterable[bytes], *, lasting: bool = False) -> None:
    """Write a file whole or not at all, replacing whatever is at `path`, even a link. `lasting`: the file and its name
    are on the disk before this returns."""
    with new_part(path) as (part, file):
        for piece in pieces:
            file.write(piece)
        file.flush()
        if lasting:
            os.fsync(file.fileno())
        os.replace(part, path)
    if lasting:
        sync_folder(path.parent)


@contextlib.contextmanager
def new_part(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Create a new file beside `path`, for the caller to write and move into place; otherwise it is removed. It is
    locked meanwhile: an unlocked one was left by a killed process (`sweep_parts`)."""
    part = path.with_name(f"{PART}{os.getpid()}-{secrets.token_hex(4)}")
    while True:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):  # some file systems have no locks
            lock(fd, wait=True)
        if os.fstat(fd).st_nlink:
            break
        os.close(fd)  # a sweep removed the file between the two calls
    try:
        with os.fdopen(fd, "wb") as file:
            yield part, file
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


def sweep_parts(parts: Iterable[Path]) -> None:
    """Remove unfinished files that killed processes left."""
    for part in parts:
        with contextlib.suppress(OSError):
            fd = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                lock(fd)
                os.unlink(part)
            finally:
                os.close(fd)


def sync_folder(path: Path) -> None:
    """Write a folder to the disk, so that the names of its files last."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # some file systems do not support this
            os.fsync(fd)
    finally:
        os.close(fd)
