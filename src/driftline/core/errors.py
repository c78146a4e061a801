"""The two kinds of trouble Driftline itself can be in.

What a *compiler* does wrong is never an exception: it is a value (`Execution`, `Verdict`). Exceptions are kept for
what the user can act on, and, strictly apart, for bugs of our own.
"""

from __future__ import annotations

from collections.abc import Iterator

NOTHING_COMPARED = 5  # the exit code when no target could be judged: that is not the same as clean


class DriftlineError(Exception):
    """Something the user can act on: one sentence that says what is wrong and what to do.

    Common causes: a file that is not there, a misspelt target or option, inputs that do not fit the program.
    """

    exit_code = 2


class UnfitTarget(DriftlineError):
    """A target that can never take the program, asked for by name."""


class BackendUnavailable(DriftlineError):
    """A backend that was asked for by name cannot run here.

    Common causes: its package is not installed, or its import fails. `driftline doctor` shows the reason and the
    install command.
    """

    exit_code = 4


class StoreError(DriftlineError):
    """The store cannot be read or written: read-only, full, or made by a newer Driftline."""


class DamagedFile(DriftlineError, ValueError):
    """A file that is not what its name says: cut short, overwritten, or made by something else."""


class NotNumbers(DriftlineError, TypeError):
    """A tensor that holds something else than numbers: text, dates, Python objects."""


class TooLarge(DriftlineError):
    """Tensors that would take more memory than Driftline may use; nothing of them was allocated."""


class InternalError(Exception):
    """A bug in Driftline. Not a `DriftlineError`: a bug finder must never report its own bug as somebody else's."""

    exit_code = 3


def chain(error: BaseException, *, context: bool = False) -> Iterator[BaseException]:
    """An error and what it was raised from, outermost first; `context`: also what was being handled when it was raised.

    Libraries make rings (an inner error raised again from the outer one), so each is given once.
    """
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        yield one
        seen.add(id(one))
        one = one.__cause__ or (one.__context__ if context else None)


def innermost(error: BaseException) -> BaseException:
    """The innermost cause says what happened; the wrappers say that something did."""
    *_, last = chain(error)
    return last
