"""Something of a script that the recorder stands around: how it is carried out, and where to look afterwards."""

from __future__ import annotations

import abc
from typing import Any

from driftline.scenarios.recording import CALL, Fact


class Happening(abc.ABC):
    """One event that is to be recorded. The recorder calls `run` once, and then `roots`."""

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
        """Do it, and return what the script gets."""

    @abc.abstractmethod
    def roots(self, output: Any) -> dict[str, Any]:
        """Where the walk begins, by path. `output`: what `run` returned."""

    def facts(self) -> dict[str, Fact]:
        """Facts beside those of the walk."""
        return {}

    def roots_of_error(self) -> dict[str, Any]:
        """Where the walk begins when `run` raised an exception."""
        return {}

    def declines(self, error: BaseException) -> bool:
        """True for an exception by which the compiler says that it does not support this."""
        return False
