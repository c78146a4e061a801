"""Finds what a pickle would call, by running Python's own unpickler with harmless stand-ins for all names.

A scanner that only lists instructions must guess the contents of the stack, and a pickle can be written so that the
guess is wrong. So the pickle is run by `pickle._Unpickler`, the Python version of the C unpickler: every name that a
pickle can reach, by any instruction, goes through `find_class`. Here `find_class` returns an object that does nothing
when it is called. Containers stay empty: their items would be hashed, which a small pickle can make last forever.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections.abc import Callable, Iterator
from typing import Any

_UNPICKLER: Any = pickle._Unpickler  # type: ignore[attr-defined]
_OPEN_ENDED = ("POP", "POP_MARK", "DUP", "EXT1", "EXT2", "EXT4", "NEXT_BUFFER", "READONLY_BUFFER", "INST", "OBJ")


class UnreadablePickle(ValueError):
    """Raised for data that is not a pickle, or that this Python cannot read to its end."""


class _Nothing:
    """A harmless object that stands for anything a pickle creates or changes."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __new__(cls, *_: Any, **__: Any) -> _Nothing:
        return object.__new__(cls)

    def append(self, *_: Any) -> None:
        """Do nothing, like the other methods that a pickle may call."""

    extend = __setstate__ = append


class _Name(type):
    """Stands for a name in a pickle; calling it creates a harmless object."""

    def __call__(cls, *_: Any, **__: Any) -> _Nothing:
        return _Nothing()


class _Inert(_UNPICKLER):
    """Python's unpickler, changed to record names and to call nothing."""

    dispatch = dict(_UNPICKLER.dispatch)

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.names: list[str] = []

    def find_class(self, module: Any, name: Any) -> Any:
        self.names.append(f"{module} {name}")
        return _Name(str(name)[:40] or "_", (_Nothing,), {})

    def persistent_load(self, pid: Any) -> Any:
        return _Nothing()

    def _keep_nothing(self) -> None:
        """SETITEMS and ADDITEMS: drop the items."""
        self.pop_mark()

    def _set_nothing(self) -> None:
        """SETITEM: drop the item."""
        del self.stack[-2:]

    def _make_nothing(self) -> None:
        """DICT and FROZENSET: push a harmless object."""
        self.pop_mark()
        self.append(_Nothing())


def _instruction(name: str) -> int:
    found: bytes = getattr(pickle, name)
    return found[0]


_Inert.dispatch[_instruction("SETITEM")] = _Inert._set_nothing
for _name in ("SETITEMS", "ADDITEMS"):
    _Inert.dispatch[_instruction(_name)] = _Inert._keep_nothing
for _name in ("DICT", "FROZENSET"):
    _Inert.dispatch[_instruction(_name)] = _Inert._make_nothing


def names_in(data: bytes, allowed: Callable[[str], bool]) -> Iterator[str]:
    """Yield what is suspicious about a pickle: names that are not allowed, instructions that torch does not write, and
    data after its end. Raises `UnreadablePickle` for a damaged pickle without suspicious parts."""
    file = io.BytesIO(data)
    reader = _Inert(file)
    damage = ""
    try:
        reader.load()
    except RecursionError:
        raise
    except Exception as error:  # an unpickler raises whatever its instructions come to
        damage = f"{type(error).__name__}: {error}"
    found = [name.replace(" ", ".") for name in reader.names if not allowed(name)]
    yield from found
    unusual = [] if damage and not found and not _is_pickle(data) else _unusual(data)
    yield from (f"the instruction {name}" for name in unusual)
    if not damage and file.read(1):
        yield "more than one pickle"
    elif damage and not found and not unusual:
        raise UnreadablePickle(damage)


def _is_pickle(data: bytes) -> bool:
    return data[:1] == b"\x80"


def _unusual(data: bytes) -> list[str]:
    """Return instructions that occur only in pickles written by hand, or by a very old Python."""
    found: dict[str, None] = {}
    try:
        for opcode, _, _ in pickletools.genops(data):
            if opcode.name in _OPEN_ENDED:
                found[opcode.name] = None
    except (ValueError, IndexError, UnicodeDecodeError, OverflowError):
        pass  # only the instructions before the damage count
    return list(found)
