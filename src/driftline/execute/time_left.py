"""A limit of time for many tasks together, such as those of a whole check.

Each task has a limit of its own. A program that stays just below it, in every one of the runs that a check makes, would
keep the check busy for hours. Pools end the tasks of a thread when the time of its block is over.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from driftline.core.text import plural

_Passed = ParamSpec("_Passed")
_Returned = TypeVar("_Returned")


@dataclass(frozen=True)
class TimeLimit:
    """The time of `time.monotonic` at which it is over, and how long it was."""

    end: float = math.inf
    seconds: float = math.inf

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.end

    @property
    def words(self) -> str:
        """Why something is unknown that was to be found out in this time."""
        told = plural(round(self.seconds / 60), "minute") if self.seconds >= 120 else f"{self.seconds:.0f} s"
        return f"not finished within {told}, the limit of the whole check; a larger --timeout raises it"


_NONE = TimeLimit()
_LIMIT: ContextVar[TimeLimit] = ContextVar("the limit of the tasks of this thread", default=_NONE)


def time_limit() -> TimeLimit:
    """Return the limit of the tasks that this thread runs."""
    return _LIMIT.get()


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Limit the tasks that this thread runs inside the block, unless a block around it does already."""
    given = _LIMIT.get() if _LIMIT.get().seconds < math.inf else TimeLimit(time.monotonic() + seconds, seconds)
    token = _LIMIT.set(given)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def also_limited(work: Callable[_Passed, _Returned]) -> Callable[_Passed, _Returned]:
    """Return a function for another thread, whose tasks have the caller's limit."""
    limit = _LIMIT.get()

    def run(*args: _Passed.args, **kwargs: _Passed.kwargs) -> _Returned:
        token = _LIMIT.set(limit)
        try:
            return work(*args, **kwargs)
        finally:
            _LIMIT.reset(token)

    return run
