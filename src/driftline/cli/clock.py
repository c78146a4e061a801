"""When the command began: a budget counts from there, the start of the interpreter and slow imports included."""

from __future__ import annotations

import os
import time

_began = time.monotonic()


def start(seconds_ago: float = 0.0) -> None:
    """The command begins now, or began so many seconds ago."""
    global _began
    _began = time.monotonic() - seconds_ago


def elapsed() -> float:
    return time.monotonic() - _began


def process_age() -> float:
    """How long this process has been running, in seconds; 0 where the system does not tell."""
    try:
        with open("/proc/self/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        began = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # since the machine was started
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
