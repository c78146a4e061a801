"""KLEE test cases (`.ktest`): named objects of raw bytes, without types.

Integers are big-endian and have 32 bits. The file has `KTEST` (or `BOUT\\n`), the version, the number of arguments and
each with its length, from version 2 on two numbers about symbolic arguments, the number of objects, and each with name
and bytes. The bytes are the little-endian memory of the program that KLEE ran.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from driftline.core.errors import DriftlineError

MAGIC = b"KTEST"
_OLD_MAGIC = b"BOUT\n"
VERSION = 3
_WRITTEN_BY = b"driftline"


@dataclass(frozen=True)
class KtestFile:
    """The objects of a test case by name, and the command line that KLEE was given."""

    objects: Mapping[str, bytes]
    arguments: tuple[str, ...] = ()


def read_ktest(data: bytes, where: str) -> KtestFile:
    """Parse a test case. A repeated object name gets the suffix `#2`, `#3` and so on."""
    reader = _ByteReader(data, where)
    if reader.take(5) not in (MAGIC, _OLD_MAGIC):
        raise DriftlineError(f"{where} is not a KLEE test case: it does not begin with KTEST.")
    version = reader.number()
    if not 1 <= version <= VERSION:
        raise DriftlineError(f"{where} has version {version} of KLEE's format; versions 1 to {VERSION} are known.")
    arguments = tuple(reader.text() for _ in reader.counted())
    if version >= 2:
        reader.number()
        reader.number()
    objects: dict[str, bytes] = {}
    for _ in reader.counted():
        name = reader.text()
        data_of = reader.take(reader.number())
        # KLEE gives a symbolic made in a loop the same name each time
        count = sum(known == name or known.startswith(f"{name}#") for known in objects)
        objects[f"{name}#{count + 1}" if count else name] = data_of
    if reader.left:
        raise DriftlineError(f"{where} is damaged: {reader.left} bytes follow its last object.")
    return KtestFile(objects, arguments)


def write_ktest(objects: Mapping[str, bytes], arguments: tuple[str, ...] = ()) -> bytes:
    """Write a test case that `klee-replay` and `ktest-tool` can read."""

    def sized(part: bytes) -> bytes:
        return struct.pack(">I", len(part)) + part

    given = [text.encode() for text in arguments] or [_WRITTEN_BY]
    parts = [MAGIC, struct.pack(">II", VERSION, len(given)), *map(sized, given), struct.pack(">II", 0, 0)]
    parts.append(struct.pack(">I", len(objects)))
    for name, data in objects.items():
        parts += [sized(name.encode()), sized(data)]
    return b"".join(parts)


class _ByteReader:
    def __init__(self, data: bytes, where: str) -> None:
        self._data, self._where, self._at = data, where, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise DriftlineError(
                f"{self._where} is cut off or damaged: at byte {self._at} it promises {count} bytes, and {self.left}"
                " follow."
            )
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def counted(self) -> range:
        """Read a count and return `range(count)`. Raises an error if that many entries cannot fit in the rest of the
        file."""
        count = self.number()
        if count * 4 > self.left:
            raise DriftlineError(
                f"{self._where} is cut off or damaged: it promises {count} entries, and {self.left} bytes follow."
            )
        return range(count)

    def text(self) -> str:
        return self.take(self.number()).decode("utf-8", "backslashreplace").rstrip("\0")
