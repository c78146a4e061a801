"""Reads and writes files in folders that workers share with the process that started them.

Landlock lets workers create only plain files in these folders. This module is the second guard, for kernels without
Landlock: a *shared* folder is opened before its first worker starts, and everything below is reached from that
descriptor, one folder at a time, without following a link that a worker may have put in place of a folder or a file. A
pipe or a device in place of a file is refused without waiting for it.

Paths outside shared folders are opened as usual. Workers themselves have no shared folders.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from driftline.core.errors import DamagedFile, TooLarge
from driftline.core.removal import remove_below
from driftline.core.wire import DAMAGES, MOST_VALUES, codec_of, loads, values_in

T = TypeVar("T")
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_LINKS = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO)  # the errors of opening a link, or a pipe without a reader

MOST_TEXT = 256 << 20  # bytes that are read of a text file
MOST_LINES = 1 << 18

_shared: dict[str, int] = {}  # folders that workers may write to, each with an open descriptor


def share(folder: Path) -> None:
    """Open a folder in which workers will create files, before the first of them starts."""
    _shared[f"{folder}/"] = os.open(folder, _FOLDER)


def unshare(folder: Path) -> None:
    """Close the descriptor of a folder that workers no longer use."""
    descriptor = _shared.pop(f"{folder}/", None)
    if descriptor is not None:
        os.close(descriptor)


def handed(path: Path | str) -> Path:
    """Return a path that a worker named. Raises `DamagedFile` unless the path lies below a shared folder."""
    if _shared and not _below(path):
        raise DamagedFile(f"A worker named the file {path}, which is not one of the files it may hand over.")
    return Path(path)


def handed_file(path: Path | str, most: int) -> Path:
    """Return the path of a file that a worker named. Raises `DamagedFile` as `handed` does, and `TooLarge` for more
    than `most` bytes: a hole in a file costs the worker nothing, and whoever reads or copies it much."""
    with open_file(handed(path)) as file:
        size = os.fstat(file.fileno()).st_size
    if size > most:
        raise TooLarge(f"A worker wrote a file of {size:,} bytes, {Path(path).name}; {most:,} are allowed.")
    return Path(path)


def is_plain_name(name: str) -> bool:
    """True if a name that a worker told is that of a file, and not of a place elsewhere."""
    return bool(name) and name not in (".", "..") and "/" not in name and "\0" not in name


def open_file(path: Path | str) -> BinaryIO:
    """Open a file for reading. Below a shared folder, links are not followed and only plain files are opened."""
    if not _below(path):
        return open(path, "rb")
    with _parent_of(path) as (folder, name):
        file = os.fdopen(_open(name, os.O_RDONLY, folder, path), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise DamagedFile(f"{path} is not a plain file.")
    return file


def write_file(path: Path | str, pieces: list[bytes | memoryview]) -> None:
    """Write a file whole or not at all: a reader never sees half a file. Below a shared folder, no link is followed."""
    with _parent_of(path) as (folder, name):
        part = f"{name}.part{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        with os.fdopen(_open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder, path), "wb") as file:
            file.writelines(pieces)
        os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a text file written by a worker; none if there is no file. Of a larger file only the beginning
    is read: `MOST_TEXT` bytes, `MOST_LINES` lines, and `MOST_VALUES` values of JSON."""
    left, values = MOST_TEXT, MOST_VALUES
    with contextlib.suppress(FileNotFoundError), open_file(path) as file:
        for _ in range(MOST_LINES):
            line = file.readline(left)
            left -= len(line)
            values -= values_in(line)
            if not line or values < 0:
                return
            yield line.decode(errors="replace").rstrip("\r\n")


def records_of(path: Path, kind: type[T]) -> Iterator[T]:
    """Yield the records that a worker wrote, one line of JSON each. Invalid lines are skipped: the worker died while it
    wrote them, or wrote them wrongly."""
    codec = codec_of(kind)
    for text in lines_of(path):
        with contextlib.suppress(*DAMAGES):
            yield codec.decode(loads(text))


def make_folder(path: Path) -> None:
    """Make a new folder, without following a worker's link on the way to its parent."""
    with _parent_of(path) as (folder, name):
        os.mkdir(name, dir_fd=folder)


def remove_folder(path: Path) -> None:
    """Remove a folder with its content, without following links."""
    with contextlib.suppress(DamagedFile, OSError), _parent_of(path) as (folder, name):
        remove_below(folder, name)


def remove_file(path: Path) -> None:
    """Remove a file or a link, if there is one, without following a worker's link on the way to its folder."""
    with contextlib.suppress(DamagedFile, OSError), _parent_of(path) as (folder, name):
        os.unlink(name, dir_fd=folder)


def _below(path: Path | str) -> tuple[int, list[str]] | None:
    """Return the descriptor of the shared folder that a path lies below, and the names from there; None for other
    paths."""
    text = os.fspath(path)
    for root, descriptor in list(_shared.items()):  # a copy: other threads may begin or end a run
        if text.startswith(root):
            names = [name for name in text[len(root) :].split("/") if name not in ("", ".")]
            return (descriptor, names) if names and ".." not in names else None
    return None


@contextlib.contextmanager
def _parent_of(path: Path | str) -> Iterator[tuple[int, str]]:
    """Open the folder of a path; yield its descriptor and the last name of the path."""
    found = _below(path)
    if found:
        folder, names = os.dup(found[0]), found[1]
    else:
        above, last = os.path.split(path)
        folder, names = os.open(above or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), [last]
    try:
        for name in names[:-1]:
            inner = _open(name, _FOLDER, folder, path)
            os.close(folder)
            folder = inner
        yield folder, names[-1]
    finally:
        os.close(folder)


def _open(name: str, flags: int, folder: int, path: Path | str) -> int:
    try:
        return os.open(name, flags | _FILE, 0o666, dir_fd=folder)
    except OSError as error:
        if error.errno in _LINKS:
            raise DamagedFile(f"{path} cannot be opened: {name!r} in it is not a plain file or folder.") from error
        raise
