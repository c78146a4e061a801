"""An event of a script that the recorder wraps: how it is carried out, and which objects to read afterwards."""

from __future__ import annotations

import abc
from typing import Any

from driftline.scenarios.recording import CALL, Fact


class Happening(abc.ABC):
    """One event to be recorded. The recorder calls `run` once, and then `roots` or `roots_of_error`."""

    kind = CALL
    name = ""
    sharing = True  # the memory that tensors share is compared, and objects that are one and the same
    judged = True  # may be set by `run`: this call promises nothing
    folded = False  # the compiler multiplies weights beforehand: only what is beyond the worst case is wrong
    printing = True  # what the call prints belongs to what the script prints
    own_errors = True  # the classes of the script's own exceptions are compared
    eager = False  # set by the recorder: this run goes without the compiler
    forgiven = False  # set by `run`: the exception is one that the compiled run must not raise

    @abc.abstractmethod
    def run(self) -> Any:
        """Carry out the event and return what the script gets."""

    @abc.abstractmethod
    def roots(self, output: Any) -> dict[str, Any]:
        """Return the objects to read after the event, by path. `output`: what `run` returned."""

    def facts(self) -> dict[str, Fact]:
        """Return facts in addition to those read from the objects."""
        return {}

    def roots_of_error(self) -> dict[str, Any]:
        """Return the objects to read after `run` raised an exception."""
        return {}

    def declines(self, error: BaseException) -> bool:
        """True for an exception by which the compiler reports that it does not support the program."""
        return False
