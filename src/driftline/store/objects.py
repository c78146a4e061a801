"""The large objects of a store: files named by the SHA-256 of their content.

A file is written whole or not at all, and is flushed to disk before anything refers to it. Content that is read is
compared with the file's name: a file with other content is damaged or forged, and is refused.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from driftline.core.errors import DriftlineError, StoreError
from driftline.core.files import BIG, copy_file
from driftline.core.handover import open_file
from driftline.core.private import PART, private_folder, reading, sweep_parts, sync_folder, write_private
from driftline.core.program import file_digest

_DIGEST = re.compile(r"([0-9a-f]{64})")
_FEW = 8  # files that are flushed to the disk one by one
_DATA = re.compile(r"([0-9a-f]{64})\.data")  # weights of a big model, beside it


class Objects:
    """The object files below one folder."""

    def __init__(self, folder: Path, store: Path) -> None:
        self._folder = folder
        self._store = store  # as the user wrote it, for messages
        self._known: dict[Path, tuple[int, int, int]] = {}  # sound files, with their state when they were read

    def path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise StoreError(f"The store {self._store} is damaged: {digest[:80]!r} is not the name of an object.")
        return self._folder / digest[:2] / digest[2:]

    def existing(self, digest: str) -> Path:
        return self._sound(self.path(digest), digest)

    def existing_data(self, beside: Path, name: str) -> Path:
        """Return the checked path of a data file beside a program."""
        found = _DATA.fullmatch(name)
        if not found:
            raise StoreError(f"The store {self._store} is damaged: {name[:80]!r} is not the name of a data file.")
        return self._sound(beside.with_name(name), found[1])

    def put(self, path: Path) -> str:
        """Copy a file into the store and return its digest; a large file is hard-linked instead."""
        digest = file_digest(path)
        self._put(path, self.path(digest), digest)
        return digest

    def put_data(self, path: Path, beside: Path) -> None:
        """Copy a data file beside its program. It is not linked: see core/files.py."""
        found = _DATA.fullmatch(path.name)
        digest = found[1] if found else file_digest(path)
        self._put(path, beside.with_name(path.name), digest, link=False)

    def put_as(self, path: Path, place: str, digest: str) -> None:
        """Copy a file with a known digest to `place`, a path below the folder."""
        self._put(path, self._folder / place, digest, link=False)

    def take_all(self, others: Path) -> Iterator[str]:
        """Copy the objects of another folder that are missing here, and yield a message for each damaged one. All are
        written before they are flushed to disk together, which is faster than one at a time."""
        taken: list[Path] = []
        for path in sorted(others.glob("*/*")):
            found = _DIGEST.fullmatch(path.parent.name + path.name) or _DATA.fullmatch(path.name)
            kept = self._folder / path.parent.name / path.name
            if not found or not path.is_file() or path.is_symlink():
                continue  # a partial file, or a file of another program
            with contextlib.suppress(OSError):
                if kept.lstat().st_size == path.stat().st_size:
                    continue
            try:
                sound = digest_of(path) == found[1]
            except OSError as error:
                yield f"the object {found[1][:12]} cannot be read ({error.strerror})"
                continue
            if sound:
                self._put(path, kept, found[1], link=False, lasting=False)
                taken.append(kept)
            else:
                yield f"the object {found[1][:12]} does not hold what it was written with"
        if len(taken) > _FEW:
            os.sync()
            return
        for kept in taken:
            with reading(kept) as file:
                os.fsync(file.fileno())
            sync_folder(kept.parent)

    def sweep(self) -> None:
        """Remove partial files of processes that were killed while writing."""
        sweep_parts(self._folder.glob(f"*/{PART}*"))

    def _put(self, path: Path, kept: Path, digest: str, *, link: bool = True, lasting: bool = True) -> None:
        with contextlib.suppress(DriftlineError):
            self._sound(kept, digest)
            return  # it is there, and whole
        private_folder(self._folder)
        if kept.parent.is_symlink():
            raise StoreError(f"{kept.parent} is a symbolic link, and Driftline does not write there. Remove it.")
        private_folder(kept.parent)
        if path.stat().st_size >= BIG:
            kept.unlink(missing_ok=True)
            copy_file(path, kept, link=link, lasting=lasting)
        else:
            with open_file(path) as file:  # of the user, maybe through a link
                write_private(kept, pieces_of(file), lasting=lasting)

    def _sound(self, path: Path, digest: str) -> Path:
        try:
            state = path.lstat()
        except OSError as error:
            raise StoreError(
                f"The store {self._store} has lost the object {digest[:12]}; the case cannot be replayed."
            ) from error
        mark = (state.st_ino, state.st_size, state.st_mtime_ns)
        if self._known.get(path) != mark:
            if digest_of(path) != digest:
                raise StoreError(
                    f"The object {digest[:12]} of the store {self._store} is damaged: {path} does not hold what it was"
                    " written with. The case cannot be replayed; check its program again."
                )
            self._known[path] = mark
        return path


def digest_of(path: Path) -> str:
    """Return the SHA-256 of an object, or an empty string if it is not a plain file."""
    try:
        with reading(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ELOOP):
            return ""
        raise


def pieces_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the rest of a file in pieces of 1 MiB."""
    while piece := file.read(1 << 20):
        yield piece


def readable_copy(path: Path, to: Path) -> None:
    """Copy a database with its write-ahead log, which holds committed rows that are not in the main file yet."""
    for name in ("store.db", "store.db-wal"):
        with contextlib.suppress(FileNotFoundError), reading(path / name) as file:
            write_private(to / name, pieces_of(file))
    with contextlib.suppress(OSError):
        os.chmod(to, 0o700)  # noqa: PTH101
