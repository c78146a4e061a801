"""Output that may end before we do: `driftline bugs list | head -1`, or a terminal that was closed.

A reader that has left is no trouble of ours: what is found is in the store, and the exit code still says what came out.
So writing goes on, to nowhere. Anything else, a full disk say, is one sentence.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any


class OutputLost(Exception):
    """What was printed did not arrive."""


class _Raw(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), self.fileno())
            return len(data)
        except OSError as error:
            if self.fileno() == 2:
                return len(data)  # the reader is gone: there is nowhere to report it
            os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), self.fileno())
            raise OutputLost(error.strerror) from error


@contextlib.contextmanager
def output_that_may_end() -> Iterator[None]:
    """Replace stdout and stderr by streams that outlive their readers."""
    for fd, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is None:  # closed from the beginning, as in `driftline ... >&-`
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), fd)
        raw = _Raw(fd, "w", closefd=False)
        line_buffering = fd == 2 or raw.isatty()
        encoding = getattr(stream, "encoding", None) or "utf-8"
        made = io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=line_buffering)
        setattr(sys, name, made)
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except OutputLost as error:
            print(f"driftline: the output cannot be written: {error}.", file=sys.stderr)
            sys.stderr.flush()
            os._exit(2)
