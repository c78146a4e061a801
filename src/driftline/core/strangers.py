"""Whether workers of this process run code of strangers: a file of a user, of a store, or text of a language model.

Such code lives in the process that answers. So what the worker says is no evidence of a fault of Driftline, and an
answer that cannot be used says nothing about anybody. Programs that Driftline made itself do not forge answers: there
both are bugs of Driftline.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator

from driftline.core.errors import NOTHING_COMPARED, DriftlineError, Interrupted
from driftline.core.full_disk import no_room
from driftline.core.text import first_line

_admitted = False


class UselessAnswer(DriftlineError):
    """The process of a stranger's program answered something that cannot be used."""

    exit_code = NOTHING_COMPARED


def admit() -> None:
    """Note that code of a stranger will run in workers of this process."""
    global _admitted
    _admitted = True


def admitted() -> bool:
    """True if a worker of this process may have run code of a stranger."""
    return _admitted


@contextlib.contextmanager
def one_run() -> Iterator[None]:
    """Forget the strangers of earlier runs inside the block, and those of the block after it."""
    global _admitted
    before, _admitted = _admitted, False
    try:
        yield
    finally:
        _admitted = before


def useless(error: BaseException) -> str:
    """Return what is said of an exception that the answers of a stranger's process may have caused."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    said = first_line(f"{type(error).__name__}: {error}", 150)
    return f"what its process answered cannot be used ({said}{where}): this says nothing about the compiler"


@contextlib.contextmanager
def answers_used() -> Iterator[None]:
    """Use answers of workers inside the block. An unexpected exception becomes `UselessAnswer` where a stranger's code
    may have forged what caused it."""
    try:
        yield
    except (DriftlineError, Interrupted):
        raise
    except Exception as error:
        if not _admitted or no_room(error):
            raise
        raise useless_answer(error) from error


def useless_answer(error: Exception) -> UselessAnswer:
    """Return the error for an exception that the answers of a stranger's process may have caused."""
    return UselessAnswer(f"The program cannot be judged: {useless(error)}.")
