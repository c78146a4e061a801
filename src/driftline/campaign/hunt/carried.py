"""The outcome of an order that another process carried out: a value, or the reason why there is none.

An exception loses all but the name of its class on the way to another process, so the outcomes that the hunt must tell
apart are sent as values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from driftline.core.errors import DriftlineError, InternalError
from driftline.core.plugins import load_plugins
from driftline.execute.pool import PoolInterrupted, WorkerStartError

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Carried(Generic[_Value]):
    """The value of an order, or one of the reasons why there is none."""

    value: _Value | None = None
    interrupted: str = ""  # the time of the hunt is over
    cannot_start: str = ""  # a compiler cannot be started in that process
    internal: str = ""  # the traceback of a fault of Driftline
    sentence: str = ""  # an error message for the user

    def unwrap(self) -> _Value:
        """Return the value, or raise the error that the other process met."""
        if self.interrupted:
            raise PoolInterrupted(self.interrupted)
        if self.cannot_start:
            raise WorkerStartError(self.cannot_start)
        if self.internal:
            raise InternalError(self.internal)
        if self.sentence:
            raise DriftlineError(self.sentence)
        assert self.value is not None
        return self.value


def carried_out(work: Callable[[], _Value], plugins: tuple[str, ...]) -> Carried[_Value]:
    """Do the work, and return its value or the error that it raised."""
    try:
        load_plugins(plugins)
        return Carried(work())
    except PoolInterrupted as error:
        return Carried(interrupted=str(error) or "interrupted")
    except WorkerStartError as error:
        return Carried(cannot_start=str(error))
    except InternalError as error:
        return Carried(internal=str(error))
    except DriftlineError as error:
        return Carried(sentence=str(error))
