"""Files of our own: locks, objects, databases, scratch. They are made for the user alone (0700 and 0600), in folders
that belong to the user, and a link in their place is refused, not followed: whoever may write into a folder could
otherwise make us empty or overwrite any file of the user's.
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
PART = ".part-"  # how files begin that are not whole yet


def private_folder(path: Path) -> Path:
    """Make a folder for the user alone, or take the one that is there if it is the user's."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    state = path.stat()
    if state.st_uid != os.geteuid() and os.geteuid() != 0:
        raise PermissionError(errno.EACCES, "it belongs to another user", str(path))
    if state.st_uid == os.geteuid() and state.st_mode & 0o077:
        path.chmod(0o700)
    return path


def own_folder(path: Path) -> Path:
    """Make a folder inside one of our own. A link in its place is refused: it may lead to any folder of the user's."""
    if path.is_symlink():
        raise DriftlineError(f"{path} is a symbolic link, and Driftline does not write there. Remove it.")
    return private_folder(path)


def refuse_link(path: Path) -> None:
    """Refuse what is a link, or not a plain file, where one of our own files is to be."""
    try:
        state = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(state.st_mode):
        what = "a symbolic link" if stat.S_ISLNK(state.st_mode) else "not a plain file"
        raise DriftlineError(f"{path} is {what}, and Driftline does not write there. Remove it, and start again.")


def open_private(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    """Open a file of our own, which nobody else may read, without following a link; give its descriptor."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            refuse_link(path)
        raise
    state = os.fstat(fd)
    # A second name may be somebody's way to have us write into another file of the user's.
    if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1 or state.st_uid not in (os.geteuid(), 0):
        os.close(fd)
        raise DriftlineError(f"{path} is a link to another file, and Driftline does not write there. Remove it.")
    return fd


def lock(fd: int, *, wait: bool = False) -> None:
    """Lock a file that is open for writing, until it is closed. Raises `BlockingIOError` if somebody else has the lock,
    unless `wait`.

    Workers cannot take locks of the first kind, on whatever file (`execute/seccomp.py`). The second kind is the one of
    Driftline before; a worker can hold it, and is not waited for.
    """
    everything = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(fd, _F_OFD_SETLKW if wait else _F_OFD_SETLK, everything)
    with contextlib.suppress(BlockingIOError) if wait else contextlib.nullcontext():
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[BinaryIO]:
    """A plain file of a store, open to be read. A link is not followed, and a pipe or a device in the file's place is
    never waited for: both are an `OSError`, as a file that is not there is."""
    with os.fdopen(_open_to_read(path), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a plain file", str(path))
        yield file


def read_plain(path: Path, most: int) -> bytes:
    """The bytes of a plain file of a store; an `OSError` if there are more than `most`."""
    with reading(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(min(size, most) + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most:,} bytes", str(path))
    return data


def read_end(path: Path, most: int) -> bytes:
    """The last bytes of a plain file of a store, no more than `most`."""
    with reading(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most)


def _open_to_read(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)


def write_private(path: Path, pieces: Iterable[bytes], *, lasting: bool = False) -> None:
    """Write a file whole or not at all; whatever is in its place, a link included, is replaced. `lasting`: it is on the
    disk, its name included, before this returns."""
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
    """A new file beside `path`, to be written and then put in its place; removed if that does not happen. It is locked
    meanwhile: one that is not locked was left by a process that was killed (`sweep_parts`)."""
    part = path.with_name(f"{PART}{os.getpid()}-{secrets.token_hex(4)}")
    while True:
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(OSError):  # some file systems have no locks
            lock(fd, wait=True)
        if os.fstat(fd).st_nlink:
            break
        os.close(fd)  # a sweep came between the two calls
    try:
        with os.fdopen(fd, "wb") as file:
            yield part, file
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


def sweep_parts(parts: Iterable[Path]) -> None:
    """Remove what processes left that were killed while they wrote."""
    for part in parts:
        with contextlib.suppress(OSError):
            fd = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                lock(fd)
                os.unlink(part)
            finally:
                os.close(fd)


def sync_folder(path: Path) -> None:
    """A name lasts when its folder is on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot
            os.fsync(fd)
    finally:
        os.close(fd)
