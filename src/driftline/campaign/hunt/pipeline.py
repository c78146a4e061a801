"""Runs several turns of one lane at once, so that one compiler can keep all processors busy.

Each turn is asked for with the results of a fixed number of earlier turns, even if later ones are done by then, and
turns are finished in order. So neither the programs nor the stored turns depend on how many run at once, and a lane
rebuilt from its stored turns continues as if it had never stopped.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from driftline.campaign.hunt.lane import Lane
from driftline.checking.batch_requests import ProgramRequest
from driftline.store.hunts import Turn

LAG = 48  # the most turns of a lane that are asked for before the oldest of them is stored: a slow turn delays others
AT_FIRST = 4  # first turns that know no others: they are short, and together keep many processors busy
Outcome = TypeVar("Outcome")


def needed(number: int, lag: int) -> int:
    """Return how many turns must be finished before a turn is asked for: after the first ones, a third of those before
    it, and later all but the last `lag - 1`. (With half of them, a judgement of half a minute in the fourteenth turn of
    a hunt with 16 jobs kept the processors idle from the 28th on.)"""
    return max(number // 3 if number >= AT_FIRST else 0, number - lag + 1)


@dataclass(frozen=True)
class AskedTurn:
    """A turn that was asked for and is not finished."""

    number: int
    requests: tuple[ProgramRequest, ...]
    heard: Mapping[str, int]  # how often each rejection was met in the turns that this one knows
    short: bool = False  # the limit of the hunt cut off some of its programs

    @property
    def arms(self) -> Counter[tuple[str, str]]:
        return Counter((request.generator, request.arm) for request in self.requests)


class Pipeline(Generic[Outcome]):
    """A lane with all finished turns, and a copy of it that knows only what the next turn may know. Safe to use from
    several threads. `Outcome`: the type of a turn's outcome before it is stored."""

    def __init__(self, lane: Lane, lag: int = LAG) -> None:
        """`lane` has had no turn yet. With a lag of 1, every turn knows all before it, and no two run at once."""
        self.lane = lane
        self._lag = lag
        self._asking = copy.deepcopy(lane)
        self._asking.closed = lane.closed
        self._lock = threading.RLock()
        self._writing = threading.Lock()
        self._finished = 0
        self._unknown: deque[Turn] = deque()  # finished, but not yet known to the turns asked for
        self._early: dict[int, Outcome] = {}  # outcomes that came before that of an earlier turn

    @property
    def at_once(self) -> int:
        """The number of turns that may run now."""
        with self._lock:
            count = 1
            while needed(self._finished + count, self._lag) <= self._finished:
                count += 1
            return count

    @property
    def asked(self) -> int:
        """The number of turns that were asked for."""
        with self._lock:
            return self._asking.turns

    def may_ask(self, in_hand: int) -> bool:
        """True if another turn may be asked for, with `in_hand` turns running."""
        with self._lock:
            return len(self._early) + in_hand < self.at_once

    def ask(self, programs: int, most: int) -> AskedTurn | None:
        """Return the next turn, with at most `most` programs. `programs`: the lane's total, 0 for no limit. Returns
        None if all programs were asked for, or if no generator makes another one."""
        while True:
            with self._lock:
                if not self._asking.unlisted:
                    return self._ask(programs, most)
            self._asking.list_arms()  # without the lock, since threads that look for work must not wait for this

    def _ask(self, programs: int, most: int) -> AskedTurn | None:
        asking = self._asking
        left = programs - asking.programs if programs else asking.batch
        # Counted over the turns asked for, not over the finished ones: when these end depends on the clock.
        if left <= 0 or asking.exhausted:
            return None
        self._catch_up()
        requests = asking.requests(left)
        short = left < asking.turn_size or most < len(requests)
        asked = AskedTurn(asking.turns, tuple(requests[:most]), Counter(asking.rejections), short)
        asking.count(asked.number, ((*arm, count) for arm, count in asked.arms.items()))
        return asked

    def preview(self, programs: int) -> list[ProgramRequest]:
        """Return the requests that the next turn will make; used where turns know all turns before them."""
        with self._lock:
            self._catch_up()
            left = programs - self._asking.programs if programs else self._asking.batch
            return self._asking.requests(left) if left > 0 else []

    def _catch_up(self) -> None:
        """Add to the copy of the lane the turns that the next turn may know."""
        known = needed(self._asking.turns, self._lag)
        while self._unknown and self._unknown[0].number < known:
            self._asking.learn(self._unknown.popleft())

    def finish(self, asked: AskedTurn, outcome: Outcome, write: Callable[[Outcome], Turn]) -> None:
        """Note the outcome of a turn. `write` stores it once all turns before it are stored, and those that waited for
        it."""
        with self._writing:
            with self._lock:
                self._early[asked.number] = outcome
            while self._finished in self._early:
                turn = write(self._early[self._finished])  # may take long: only other writers wait for it
                with self._lock:
                    del self._early[turn.number]
                    self._end(turn)

    def rebuild(self, turn: Turn) -> None:
        """Add a turn from the store, which the lane has absorbed already."""
        with self._lock:
            self._asking.count(turn.number, ((generator, arm, count) for generator, arm, count, _ in turn.body.arms))
            self._end(turn)

    def _end(self, turn: Turn) -> None:
        self._unknown.append(turn)
        self._finished = turn.number + 1
