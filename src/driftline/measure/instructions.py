"""Count the instructions that this process executes, if the kernel allows it (`perf_event_open` of Linux).

A count does not depend on other programs on the machine, so it is shown beside the times if available. Virtual machines
and containers often refuse it, and no conclusion needs it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from functools import cache

_NUMBERS = {"x86_64": 298, "aarch64": 241}  # of the system call
INSTRUCTIONS = (0, 1)  # hardware events, the one of instructions
_SIZE = 112  # of perf_event_attr, as the kernel has known it since 4.1
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_CLOSE_ON_EXEC = 1 << 3


def instructions() -> int:
    """Return the instructions executed since the first call, by this thread and the threads that it started since; 0 if
    they cannot be counted.
    """
    return count(INSTRUCTIONS)


def count(event: tuple[int, int]) -> int:
    """Return the count of a kernel event, given by its type and number; 0 if it cannot be counted."""
    counter = _counter(*event)
    try:
        return int.from_bytes(os.read(counter, 8), "little") if counter >= 0 else 0
    except OSError:
        return 0


@cache
def _counter(kind: int, event: int) -> int:
    """Return a file descriptor to read the count from, or a negative number if the kernel refuses."""
    number = _NUMBERS.get(platform.machine()) if platform.system() == "Linux" else None
    if number is None:
        return -1
    flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    # type, size, config, period, sample_type, read_format, flags; the rest is zero.
    attributes = struct.pack("IIQQQQQ", kind, _SIZE, event, 0, 0, 0, flags).ljust(_SIZE, b"\0")
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    this_process, any_processor, no_group = 0, -1, -1
    return int(syscall(number, attributes, this_process, any_processor, no_group, _CLOSE_ON_EXEC))
