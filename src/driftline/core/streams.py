"""Standard output and error for lines of text: control characters are shown, not sent.

Names come from models, stores and plugins, and every command prints some. `driftline.report.screen` does the same for
tables and progress.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from driftline.core.quoting import visible


class Plain:
    """A text stream in front of another one. Bytes (`buffer`) pass."""

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath

    def write(self, text: str) -> int:
        self.beneath.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


@contextmanager
def plain_streams() -> Iterator[None]:
    """While this lasts, what is printed goes through `Plain`."""
    before: tuple[Any, Any] = sys.stdout, sys.stderr
    made: tuple[Any, Any] = Plain(before[0]), Plain(before[1])
    sys.stdout, sys.stderr = made
    try:
        yield
    finally:
        if (sys.stdout, sys.stderr) == made:  # nothing else was put in their place
            sys.stdout, sys.stderr = before


def write_exactly(text: str) -> None:
    """Text that is a file of its own, such as a script: to a file or a pipe as it is, to a terminal as all the rest."""
    stream: Any = sys.stdout
    if isinstance(stream, Plain) and not stream.isatty():
        stream = stream.beneath
    stream.write(text)
    stream.flush()
