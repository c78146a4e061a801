"""Limits for a language model's code inside a worker: processor time, and memory beyond what the worker uses.

A program that exceeds them ends with an exception and its worker survives. If it evades them, the pool ends the worker.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections.abc import Iterator

SECONDS = 20.0  # of processor time
BYTES = 4 << 30


class OutOfTime(BaseException):
    """The program used too much processor time. Not an `Exception`, so that a program that catches those does not catch
    this."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Limit the block to `SECONDS` of processor time and `BYTES` of additional memory."""

    def stop(*_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 1.0)  # again, should it be caught all the same
        raise OutOfTime

    limits = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGPROF, stop)
    try:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (_mapped() + BYTES, limits[1]))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, handler)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, limits)


def _mapped() -> int:
    """Return how many bytes of address space the process uses now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
