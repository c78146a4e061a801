"""Removes folders in which untrusted programs wrote, whatever their depth, modes and names.

`shutil.rmtree` is recursive, so a few thousand nested folders crash the process that cleans up. Here a loop holds some
dozens of folders open, moves deeper folders up, and follows no link. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_O_PATH = 0o10000000
_DEPTH = 64  # folders that are open at a time; moving a folder takes milliseconds on some systems
PATIENCE = 20.0  # seconds for one folder: removing a folder takes milliseconds on some systems


def remove_tree(path: Path) -> bool:
    """Remove a file, a link, or a folder with its content. Returns True if nothing is left; never raises."""
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return not os.path.lexists(path)
    try:
        return remove_below(parent, path.name)
    finally:
        os.close(parent)


def remove_below(parent: int, name: str) -> bool:
    """Remove a name in an open folder, as `remove_tree` does."""
    with contextlib.suppress(OSError):
        if _removed_at_once(parent, name):
            return True
        top = _open(parent, name)
        try:
            _empty(top, time.monotonic() + PATIENCE)
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=parent)
        return True
    return False


def _empty(top: int, deadline: float) -> None:
    """Remove everything in an open folder, including folders that are moved up to it meanwhile."""
    removed = True
    while removed and time.monotonic() < deadline:
        removed = False
        with os.scandir(top) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if not _removed_at_once(top, entry.name):
                        _remove_folder(top, entry.name, deadline)
                    removed = True


def _remove_folder(top: int, name: str, deadline: float) -> None:
    """Remove a folder in `top`; folders deep below are moved up to `top`."""
    folders, names = [_open(top, name)], [name]
    try:
        while folders and time.monotonic() < deadline:
            inner = _remove_files(folders[-1])
            if inner is None:
                os.close(folders.pop())
                os.rmdir(names.pop(), dir_fd=folders[-1] if folders else top)
            elif len(folders) < _DEPTH:
                folders.append(_open(folders[-1], inner))
                names.append(inner)
            else:
                os.close(_open(folders[-1], inner))  # a folder without write permission cannot be moved
                os.rename(inner, f".{secrets.token_hex(8)}", src_dir_fd=folders[-1], dst_dir_fd=top)
    finally:
        for folder in folders:
            os.close(folder)


def _remove_files(folder: int) -> str | None:
    """Remove files and empty folders from an open folder. Returns the name of a folder that is not empty, or `None`."""
    with os.scandir(folder) as entries:
        return next((entry.name for entry in entries if not _removed_at_once(folder, entry.name)), None)


def _removed_at_once(parent: int, name: str) -> bool:
    """Remove a file, a link or an empty folder. Returns False for other folders."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError:  # a folder: EISDIR or EPERM, depending on the system
        try:
            os.rmdir(name, dir_fd=parent)
        except OSError:
            return False
    return True


def _open(parent: int, name: str) -> int:
    """Open a folder without following a link; first change a mode that forbids reading or writing there."""
    if not os.access(name, os.R_OK | os.W_OK | os.X_OK, dir_fd=parent, follow_symlinks=False):
        fd = os.open(name, _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            Path(f"/proc/self/fd/{fd}").chmod(0o700)
        finally:
            os.close(fd)
    return os.open(name, _FOLDER, dir_fd=parent)
