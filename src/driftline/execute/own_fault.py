"""Decides whether an exception from a backend is a fault of Driftline, and not of the compiler.

Most exceptions of a compiler pass through Driftline's code, and compilers written in C leave no frames. An exception is
Driftline's if it was raised in Driftline's code by an instruction that makes no call. A backend that reports a
compiler's message uses `raise`. A call of a compiler with wrong arguments is a fault of Driftline too.
"""

from __future__ import annotations

import dis
import re
from pathlib import Path
from types import TracebackType

# The code that drives compilers. Driftline's models run inside compilers, where a missing attribute is a tracer's.
_OURS = tuple(f"{Path(__file__).resolve().parents[1] / part}/" for part in ("backends", "execute"))
_CALLED_WRONGLY = re.compile(
    r"unexpected keyword argument|takes .* positional argument|missing \d+ required"
    r"|incompatible (function|constructor) argument"
)
# Iterated or unpacked objects come from the compiler.
_ON_RESULTS = ("FOR_ITER", "GET_ITER", "UNPACK_SEQUENCE", "UNPACK_EX", "LIST_EXTEND")
_FAULTS = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, TypeError, ValueError
)  # fmt: skip


def is_ours(error: BaseException) -> bool:
    """True if an exception was raised in Driftline's own code, and not by code that it called."""
    last = _innermost(error.__traceback__)
    if last is None or not last.tb_frame.f_code.co_filename.startswith(_OURS) or type(error) not in _faults():
        return False
    instruction = _instruction(last)
    if instruction.startswith("CALL") or instruction == "PRECALL":
        return isinstance(error, TypeError) and bool(_CALLED_WRONGLY.search(str(error)))
    if instruction == "RAISE_VARARGS":
        return isinstance(error, AssertionError)
    return instruction not in _ON_RESULTS and instruction not in ("BEFORE_WITH", "RERAISE", "")


def _faults() -> set[type[BaseException]]:
    """Return the exception classes of Python itself; a compiler has its own subclasses of them."""
    found: set[type[BaseException]] = set()
    waiting: list[type[BaseException]] = list(_FAULTS)
    while waiting:
        kind = waiting.pop()
        if kind.__module__ == "builtins":
            found.add(kind)
            waiting += kind.__subclasses__()
    return found


def _innermost(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


def _instruction(traceback: TracebackType) -> str:
    code, at = traceback.tb_frame.f_code, traceback.tb_lasti
    return next((one.opname for one in dis.get_instructions(code) if one.offset == at), "")
