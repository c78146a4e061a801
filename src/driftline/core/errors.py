"""The two kinds of trouble Driftline itself can be in.

What a *compiler* does wrong is never an exception: it is a value (`Execution`, `Verdict`). Exceptions are kept for
what the user can act on, and, strictly apart, for bugs of our own.
"""

from __future__ import annotations

NOTHING_COMPARED = 5  # the exit code when no target could be judged: that is not the same as clean


class DriftlineError(Exception):
    """Something the user can act on: one sentence that says what is wrong and what to do.

    Common causes: a file that is not there, a misspelt target or option, inputs that do not fit the program.
    """

    exit_code = 2


class BackendUnavailable(DriftlineError):
    """A backend that was asked for by name cannot run here.

    Common causes: its package is not installed, or its import fails. `driftline doctor` shows the reason and the
    install command.
    """

    exit_code = 4


class StoreError(DriftlineError):
    """The store cannot be read or written: read-only, full, or made by a newer Driftline."""


class InternalError(Exception):
    """A bug in Driftline. Not a `DriftlineError`: a bug finder must never report its own bug as somebody else's."""

    exit_code = 3
