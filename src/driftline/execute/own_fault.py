"""Is an exception that came out of a backend a fault of ours, and not the compiler's?

Most of what a compiler raises passes through our own code, and compilers written in C leave no frames: where an
exception was raised says whose it is only if it was raised in our code, by an instruction that calls nobody. A backend
that reports what a compiler said does so by `raise`. To call a compiler in a way that it does not have is our fault
too.
"""

from __future__ import annotations

import dis
import re
from pathlib import Path
from types import TracebackType

# What drives compilers. Models of ours run inside of them, where an attribute that is missing is a tracer's.
_OURS = tuple(f"{Path(__file__).resolve().parents[1] / part}/" for part in ("backends", "execute"))
_CALLED_WRONGLY = re.compile(
    r"unexpected keyword argument|takes .* positional argument|missing \d+ required"
    r"|incompatible (function|constructor) argument"
)
# What is iterated over or unpacked is what the compiler gave.
_ON_RESULTS = ("FOR_ITER", "GET_ITER", "UNPACK_SEQUENCE", "UNPACK_EX", "LIST_EXTEND")
_FAULTS = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError, TypeError, ValueError
)  # fmt: skip


def is_ours(error: BaseException) -> bool:
    """Was it raised in Driftline's own code, and by none that this called?"""
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
    """Exceptions of Python itself; a compiler has its own subclasses of them."""
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
