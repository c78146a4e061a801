"""Landlock: the Linux interface with which a process gives up the right to write outside given folders.

Standard library only: this runs in environments that have nothing else.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same system call numbers on all machines
_O_PATH = 0o10000000
# Bits of linux/landlock.h
_WRITE_FILE, _REMOVE_DIR, _REMOVE_FILE, _MAKE_CHAR, _MAKE_DIR, _MAKE_REG = (
    1 << 1,
    1 << 4,
    1 << 5,
    1 << 6,
    1 << 7,
    1 << 8,
)
_MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM, _REFER, _TRUNCATE = 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14
_PLAIN = _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _TRUNCATE
_SPECIAL = _MAKE_SOCK | _MAKE_FIFO | _MAKE_SYM | _REFER
_DEVICES = _MAKE_CHAR | _MAKE_BLOCK
# The rights that each version of Landlock added.
_RIGHTS = {1: (_PLAIN | _SPECIAL | _DEVICES) & ~_REFER & ~_TRUNCATE, 2: _REFER, 3: _TRUNCATE}
_SCOPED_SINCE = 6
_SCOPES = 0b11  # abstract sockets of processes outside the sandbox, and signals to these processes


def abi() -> int:
    """Return the version of Landlock in this kernel, or 0 if the kernel has none."""
    return max(0, int(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), 1)))


def scoped() -> bool:
    """True if this kernel can keep a process from signalling processes outside its sandbox."""
    return abi() >= _SCOPED_SINCE


def restrict(writable: Iterable[Path | str], plain: Iterable[Path | str]) -> None:
    """Give up writing anywhere else, for this process and all that it starts.

    Below `writable` anything but device nodes may be created. Below `plain` only files and folders may be created: no
    links, pipes or sockets, and nothing can be moved there from another folder. Does nothing on a kernel without
    Landlock. Raises `OSError` if a kernel with Landlock refuses.
    """
    version = abi()
    if version < 1:
        return
    handled = sum(bits for since, bits in _RIGHTS.items() if since <= version)
    scopes = _SCOPES if version >= _SCOPED_SINCE else 0
    attributes = struct.pack("=QQQ", handled, 0, scopes)[: 24 if scopes else 16 if version >= 4 else 8]
    ruleset = _libc().syscall(_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "the kernel made no Landlock ruleset")
    try:
        for folders, rights in ((writable, _PLAIN | _SPECIAL), (plain, _PLAIN)):
            for folder in folders:
                _allow(ruleset, str(folder), rights & handled)
        if _libc().syscall(_RESTRICT, ruleset, 0) != 0:
            raise OSError(ctypes.get_errno(), "the kernel refused the Landlock ruleset")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, place: str, rights: int) -> None:
    try:
        fd = os.open(place, _O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _WRITE_FILE | _TRUNCATE
        _libc().syscall(_ADD, ruleset, 1, struct.pack("=Qi", rights, fd), 0)
    finally:
        os.close(fd)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
