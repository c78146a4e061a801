"""Limits for code of a model inside a worker: processor time, and memory beyond what the worker has.

A program that goes past them ends with an exception, not with its worker; what gets around that is ended by the pool.
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
    """Not an `Exception`: a program that catches those must not catch this one."""


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """The block may use `SECONDS` of the processor, and `BYTES` more of memory."""

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
    """Bytes of address space that the process has now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
