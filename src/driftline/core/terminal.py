"""What the user wants of the terminal: progress or none, colours or none. Set once for each command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_quiet = False
_plain = False


def be_quiet() -> None:
    """No progress from now on; results, and what went wrong, are still told."""
    global _quiet
    _quiet = True


def is_quiet() -> bool:
    return _quiet


def drop_colours() -> None:
    global _plain
    _plain = True


def wants_colours() -> bool:
    """`NO_COLOR` with any text in it says no, as --no-color does (https://no-color.org)."""
    return not _plain and not os.environ.get("NO_COLOR")


@contextmanager
def as_usual() -> Iterator[None]:
    """While one command line runs: nothing that an earlier one asked for holds."""
    global _quiet, _plain
    _quiet = _plain = False
    try:
        yield
    finally:
        _quiet = _plain = False
