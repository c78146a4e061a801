"""An event of a script that the recorder wraps: how it is carried out, and which objects to read afterwards."""

from __future__ import annotations

import abc
from typing import Any

from driftline.scenarios.recording import CALL, Fact


class Happening(abc.ABC):
    """One event to be recorded. The recorder calls `run` once, and then `roots` or `roots_of_error`."""

    kind = CALL
    name = ""
    sharing = True  # shared memory of tensors and identity of objects are compared
    judged = True  # `run` may set this to False: the event is not compared
    folded = False  # the compiler folds weights: only errors beyond the worst case count
    printing = True  # output printed by the call is part of the script's output
    own_errors = True  # the classes of the script's own exceptions are compared
    eager = False  # set by the recorder: this run does not use the compiler
    forgiven = False  # set by `run`: the compiled run must not raise this exception

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
