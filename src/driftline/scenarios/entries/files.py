"""Remembers values for files that a script writes and reads again, by path or by contents."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")


class Files(Generic[T]):
    """A map from files to values. A file that has changed since is unknown."""

    def __init__(self) -> None:
        self._by_path: dict[str, tuple[str, T]] = {}
        self._by_content: dict[str, list[T]] = {}

    def remember(self, file: object, value: T) -> None:
        """Store `value` for a file that was just written; `file` is a path or a stream."""
        digest = _digest(file)
        if not digest:
            return
        if isinstance(file, (str, os.PathLike)):
            self._by_path[os.path.realpath(file)] = (digest, value)
        self._by_content.setdefault(digest, []).append(value)

    def known(self, file: object) -> T | None:
        """Return the value of a path, stream or bytes, or `None` if it is unknown or its contents belong to two
        values."""
        digest = _digest(file)
        if isinstance(file, (str, os.PathLike)):
            kept, value = self._by_path.get(os.path.realpath(file), ("", None))
            if kept and kept == digest:
                return value
        values = self._by_content.get(digest, [])
        return values[0] if len({id(value) for value in values}) == 1 else None


def _digest(file: object) -> str:
    try:
        return hashlib.sha256(_content(file)).hexdigest()
    except OSError:
        return ""


def _content(file: object) -> bytes:
    if isinstance(file, (str, os.PathLike)):
        return Path(file).read_bytes()
    if isinstance(file, io.BytesIO):
        return file.getvalue()
    return file if isinstance(file, bytes) else b""
