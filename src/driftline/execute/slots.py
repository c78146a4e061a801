"""How many tasks run at once, and who waits: of those that wait, the one that belongs to the oldest order goes first.

A turn of a hunt is many tasks, and later turns cannot be written before it. Were a place given to whoever comes, the
oldest turn would wait with each of its tasks for those of all turns beside it, and they for it.
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
    """Seconds for which the tasks of an order had places, over all of them, those that have one now included. To wait
    for a place takes nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds = 0.0
        self._places = 0
        self._counted = 0.0  # up to when
        self.begun = False  # has it had one?

    @property
    def seconds(self) -> float:
        with self._lock:
            self._count()
            return self._seconds

    def take(self, places: int) -> None:
        """So many more places from now on, or fewer."""
        with self._lock:
            self._count()
            self._places += places
            self.begun = True

    def add(self, seconds: float) -> None:
        """So much was taken in another process."""
        with self._lock:
            self._seconds += seconds
            self.begun = True

    def _count(self) -> None:
        now = time.monotonic()
        self._seconds += self._places * (now - self._counted)
        self._counted = now


@contextlib.contextmanager
def one_order(place_time: PlaceTime | None = None) -> Iterator[None]:
    """The tasks that are run inside the block belong together, and are as old as the block. `place_time` counts what
    they take."""
    since, counted = _SINCE.set(time.monotonic()), _TIME.set(place_time or PlaceTime())
    try:
        yield
    finally:
        _SINCE.reset(since)
        _TIME.reset(counted)


def time_of_this_order() -> PlaceTime:
    """What counts the time of the order that this is part of."""
    return _TIME.get(None) or PlaceTime()


def of_this_order(work: Callable[_Given, _Done]) -> Callable[_Given, _Done]:
    """The same function for another thread, once: its tasks belong to the order in which this was called."""
    context = copy_context()

    def run(*args: _Given.args, **kwargs: _Given.kwargs) -> _Done:
        return context.run(work, *args, **kwargs)

    return run


class Slots:
    """So many places. A task that belongs to no order is as old as its request."""

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
        except BaseException:  # Ctrl-C: whoever is next takes the place, should it be ours by now
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
        """A place is free: it goes to who waits, or nobody does."""
        if self._waiting:
            heapq.heappop(self._waiting)[2].set()
        else:
            self._free += 1
