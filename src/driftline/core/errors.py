"""The two kinds of errors of Driftline itself.

A wrong *compiler* never causes an exception: its behaviour is a value (`Execution`, `Verdict`). Exceptions are for
errors that the user can act on and, strictly apart, for bugs of Driftline.
"""

from __future__ import annotations

from collections.abc import Iterator

NOTHING_COMPARED = 5  # the exit code when no target could be judged: that is not the same as clean


class DriftlineError(Exception):
    """An error that the user can act on: one sentence that says what is wrong and what to do.

    Common causes: a missing file, a misspelt target or option, inputs that do not fit the program.
    """

    exit_code = 2


class UnfitTarget(DriftlineError):
    """A target, requested by name, that can never accept the program."""


class BackendUnavailable(DriftlineError):
    """A backend that was asked for by name cannot run here.

    Common causes: its package is not installed, or its import fails. `driftline doctor` shows the reason and the
    install command.
    """

    exit_code = 4


class StoreError(DriftlineError):
    """The store cannot be read or written: read-only, full, or made by a newer Driftline."""


class DamagedFile(DriftlineError, ValueError):
    """A file whose content does not fit its name: cut short, overwritten, or of another format."""


class NotNumbers(DriftlineError, TypeError):
    """A tensor whose elements are not numbers: text, dates, Python objects."""


class TooLarge(DriftlineError):
    """Tensors that would need more memory than allowed; none of them was allocated."""


class Interrupted(Exception):
    """Work was ended from outside, or never begun: this says nothing about the work."""


class InternalError(Exception):
    """A bug in Driftline. Not a `DriftlineError`: a bug finder must never report its own bug as somebody else's."""

    exit_code = 3


def chain(error: BaseException, *, context: bool = False) -> Iterator[BaseException]:
    """Yield an error and its causes, outermost first. `context`: also the errors that were being handled when it was
    raised.

    Libraries make cycles (an inner error raised again from the outer one), so each error is yielded once.
    """
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        yield one
        seen.add(id(one))
        one = one.__cause__ or (one.__context__ if context else None)


def innermost(error: BaseException) -> BaseException:
    """Return the innermost cause of an error, which describes the event; the others are wrappers."""
    *_, last = chain(error)
    return last
