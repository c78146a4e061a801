"""Fills new memory with a known byte while a compiled program runs.

A kernel that leaves part of its output unwritten returns the old content of the memory: often zeros, which are right by
chance. With a known byte the kernel is wrong in every run, and two runs with different bytes distinguish memory that
was never written from a wrong computation.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from driftline.backends.base import Compiled
from driftline.core.tensors import Arrays

# Floats of every width that consist of one of these bytes are ordinary positive numbers: 3.0 and 0.75 in float32.
USUAL, OTHER = 0x40, 0x3F
M_PERTURB = -6  # of glibc's malloc.h: new memory holds the complement of the low byte, freed memory the byte itself


@contextmanager
def new_memory_filled(byte: int) -> Iterator[None]:
    """Fill the memory that the C library allocates inside the block with `byte`, if the library can do this."""
    tell = getattr(ctypes.CDLL(None), "mallopt", None)
    if tell is None:  # only glibc has it
        yield
        return
    tell(M_PERTURB, byte ^ 0xFF)
    try:
        yield
    finally:
        tell(M_PERTURB, 0)


def in_filled_memory(compiled: Compiled, byte: int) -> Compiled:
    """Return the compiled program, wrapped so that new memory is filled during each call."""

    def call(arrays: Arrays) -> Arrays:
        with new_memory_filled(byte):
            return compiled(arrays)

    return call
