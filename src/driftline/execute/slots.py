"""Limits how many tasks run at once: of the waiting tasks, the one of the oldest order goes first.

A turn of a hunt is many tasks, and later turns cannot be stored before it. If slots went to whichever task comes first,
every task of the oldest turn would wait for tasks of later turns, which in turn wait for it.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar, copy_context
from typing import ParamSpec, TypeVar

_SINCE: ContextVar[float] = ContextVar("when the order was begun")
_TIME: ContextVar[PlaceTime] = ContextVar("the time that its tasks had places")
_Given = ParamSpec("_Given")
_Done = TypeVar("_Done")


class PlaceTime:
    """Counts the seconds during which the tasks of an order held slots, added over all tasks, running ones included.
    Time spent waiting for a slot does not count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds = 0.0
        self._places = 0
        self._counted = 0.0  # the time up to which seconds are counted
        self.begun = False  # True once a task has held a slot

    @property
    def seconds(self) -> float:
        with self._lock:
            self._count()
            return self._seconds

    def take(self, places: int) -> None:
        """Note that the order holds so many more slots, or fewer."""
        with self._lock:
            self._count()
            self._places += places
            self.begun = True

    def add(self, seconds: float) -> None:
        """Add seconds that were used in another process."""
        with self._lock:
            self._seconds += seconds
            self.begun = True

    def _count(self) -> None:
        now = time.monotonic()
        self._seconds += self._places * (now - self._counted)
        self._counted = now


@contextlib.contextmanager
def one_order(place_time: PlaceTime | None = None) -> Iterator[None]:
    """Treat the tasks inside the block as one order, as old as the block. `place_time` counts the seconds that they
    hold slots."""
    since, counted = _SINCE.set(time.monotonic()), _TIME.set(place_time or PlaceTime())
    try:
        yield
    finally:
        _SINCE.reset(since)
        _TIME.reset(counted)


def time_of_this_order() -> PlaceTime:
    """Return the counter of the order that the caller belongs to, or a new one."""
    return _TIME.get(None) or PlaceTime()


def of_this_order(work: Callable[_Given, _Done]) -> Callable[_Given, _Done]:
    """Return a function for one call in another thread: its tasks belong to the caller's order."""
    context = copy_context()

    def run(*args: _Given.args, **kwargs: _Given.kwargs) -> _Done:
        return context.run(work, *args, **kwargs)

    return run


class Slots:
    """A fixed number of slots, used as a context manager. A task without an order is as old as its request."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, int, threading.Event]] = []
        self._numbers = itertools.count()

    def __enter__(self) -> None:
        self._wait()
        if order := _TIME.get(None):
            order.take(1)

    def _wait(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            granted = threading.Event()
            since = _SINCE.get(time.monotonic())
            heapq.heappush(self._waiting, (since, next(self._numbers), granted))
        try:
            granted.wait()
        except BaseException:  # Ctrl-C: pass the slot on if this task has just got it
            with self._lock:
                if granted.is_set():
                    self._pass_on()
                else:
                    self._waiting = [one for one in self._waiting if one[2] is not granted]
                    heapq.heapify(self._waiting)
            raise

    def __exit__(self, *_: object) -> None:
        if order := _TIME.get(None):
            order.take(-1)
        with self._lock:
            self._pass_on()

    def _pass_on(self) -> None:
        """Give a free slot to the first waiting task, or count it as free."""
        if self._waiting:
            heapq.heappop(self._waiting)[2].set()
        else:
            self._free += 1
