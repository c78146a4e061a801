"""Standard output and error for lines of text: control characters are made visible.

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
    """A text stream that makes control characters visible and writes to another stream. Bytes (`buffer`) are passed on
    unchanged."""

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
    """Send everything printed inside the block through `Plain`."""
    before: tuple[Any, Any] = sys.stdout, sys.stderr
    made: tuple[Any, Any] = Plain(before[0]), Plain(before[1])
    sys.stdout, sys.stderr = made
    try:
        yield
    finally:
        if (sys.stdout, sys.stderr) == made:  # no other streams were set meanwhile
            sys.stdout, sys.stderr = before


def write_exactly(text: str) -> None:
    """Write text that is a whole file, such as a script: unchanged to a file or a pipe, with visible control characters
    to a terminal."""
    stream: Any = sys.stdout
    if isinstance(stream, Plain) and not stream.isatty():
        stream = stream.beneath
    stream.write(text)
    stream.flush()
