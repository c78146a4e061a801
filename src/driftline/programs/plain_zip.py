"""Accepts only archives that every ZIP reader reads in the same way.

The scan must see what torch loads. Torch has its own ZIP reader, which ignores the case of names. An archive with two
parts of one name, a second list of parts, or bytes before, between or after the parts may mean different things to
Python and to torch, and is refused.
"""

from __future__ import annotations

import struct
import zipfile
from typing import BinaryIO

_END, _END64, _LOCATOR64, _LOCAL = b"PK\5\6", b"PK\6\6", b"PK\6\7", b"PK\3\4"
_UNKNOWN = {0xFFFF, 0xFFFFFFFF}  # the number is in the larger record


def require_plain_zip(archive: zipfile.ZipFile, file: BinaryIO) -> None:
    """Raise `zipfile.BadZipFile` if different readers may read the archive differently."""
    seen: set[str] = set()
    for entry in archive.infolist():
        if entry.filename.lower() in seen:
            raise zipfile.BadZipFile(f"it has two parts of the name {entry.filename[:60]!r}")
        seen.add(entry.filename.lower())
        if entry.flag_bits & 0x1:
            raise zipfile.BadZipFile("it is encrypted")
    start = _one_list(archive, file)
    _require_in_order(archive, file, start)


def _one_list(archive: zipfile.ZipFile, file: BinaryIO) -> int:
    """Return the offset of the archive's only list of parts. Raises if there may be another."""
    size = file.seek(0, 2)
    file.seek(max(0, size - 22))
    told = file.read(22)
    if told[:4] != _END or told[-2:] != b"\0\0":
        raise zipfile.BadZipFile("something comes after its end")
    count, length, start = struct.unpack("<HII", told[10:20])
    end = size - 22
    file.seek(max(0, end - 76))
    before = file.read(76)
    if len(before) == 76 and before[56:60] == _LOCATOR64:
        count64, length64, start64 = struct.unpack("<QQQ", before[32:56])
        alike = ((count, count64), (length, length64), (start, start64))
        if before[:4] != _END64 or any(small not in _UNKNOWN and small != large for small, large in alike):
            raise zipfile.BadZipFile("it has two lists of its parts")
        count, length, start, end = count64, length64, start64, end - 76
    if start + length != end or count != len(archive.infolist()):
        raise zipfile.BadZipFile("the list of its parts does not lie where it should")
    return int(start)


def _require_in_order(archive: zipfile.ZipFile, file: BinaryIO, start: int) -> None:
    """Raise unless the parts follow one another from the first byte on, each with the name in the list."""
    expected = 0
    for entry in sorted(archive.infolist(), key=lambda entry: entry.header_offset):
        file.seek(entry.header_offset)
        head = file.read(30)
        if head[:4] != _LOCAL or entry.header_offset < expected:
            raise zipfile.BadZipFile("its parts lie over each other")
        if not expected and entry.header_offset:
            raise zipfile.BadZipFile("something comes before its first part")
        named, extra = struct.unpack("<HH", head[26:30])
        if file.read(named) != entry.orig_filename.encode("utf-8" if entry.flag_bits & 0x800 else "cp437"):
            raise zipfile.BadZipFile("a part has two names")
        expected = entry.header_offset + 30 + named + extra + entry.compress_size
    if expected > start:
        raise zipfile.BadZipFile("its parts lie over the list of them")
