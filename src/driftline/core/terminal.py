"""The terminal settings of a command line: progress or none, colours or none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_quiet = False
_plain = False


def be_quiet() -> None:
    """Turn progress off; results and errors are still shown."""
    global _quiet
    _quiet = True


def is_quiet() -> bool:
    return _quiet


def drop_colours() -> None:
    global _plain
    _plain = True


def wants_colours() -> bool:
    """True if colours are wanted: neither `NO_COLOR` (with any text) nor --no-color is set (https://no-color.org)."""
    return not _plain and not os.environ.get("NO_COLOR")


@contextmanager
def as_usual() -> Iterator[None]:
    """Reset the terminal settings before and after one command line."""
    global _quiet, _plain
    _quiet = _plain = False
    try:
        yield
    finally:
        _quiet = _plain = False
