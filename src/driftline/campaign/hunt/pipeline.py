"""The turns of one lane that are in hand at once, so that one compiler can keep all processors busy.

A turn is asked for with what a fixed number of earlier turns brought, whether later ones are done by then or not, and
turns are finished in their order. So neither the programs nor what is written depends on how many run at once, and a
lane that is rebuilt from its stored turns goes on as if it had never stopped.
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

LAG = 48  # turns of a lane that are asked for before the oldest of them is written, at most: a slow one holds up others
AT_FIRST = 4  # turns that know nothing: they are short, and together something to do for many processors
Outcome = TypeVar("Outcome")


def needed(number: int, lag: int) -> int:
    """How many turns a turn knows: they must be finished before it is asked for. After the first ones a third of those
    before it, and later all but the last ones. (With half of them, a judgement of half a minute in the fourteenth turn
    of a hunt with 16 jobs kept the processors idle from the 28th on.)"""
    return max(number // 3 if number >= AT_FIRST else 0, number - lag + 1)


@dataclass(frozen=True)
class AskedTurn:
    """A turn in hand."""

    number: int
    requests: tuple[ProgramRequest, ...]
    heard: Mapping[str, int]  # how often each rejection was met, in the turns that it knows
    short: bool = False  # the limit of the hunt leaves out some of the programs that it would have

    @property
    def arms(self) -> Counter[tuple[str, str]]:
        return Counter((request.generator, request.arm) for request in self.requests)


class Pipeline(Generic[Outcome]):
    """A lane, which knows all finished turns, and beside it what the next turn may know. Safe to use from several
    threads. An `Outcome` is what came of a turn, before it is written down."""

    def __init__(self, lane: Lane, lag: int = LAG) -> None:
        """`lane` has had no turn yet. With a lag of 1, every turn knows all before it, and none run at once."""
        self.lane = lane
        self._lag = lag
        self._asking = copy.deepcopy(lane)
        self._asking.closed = lane.closed
        self._lock = threading.RLock()
        self._writing = threading.Lock()
        self._finished = 0
        self._unknown: deque[Turn] = deque()  # finished, and not yet known to the turns that are asked for
        self._early: dict[int, Outcome] = {}  # done before an earlier turn was

    @property
    def at_once(self) -> int:
        """How many turns may be in hand now."""
        with self._lock:
            count = 1
            while needed(self._finished + count, self._lag) <= self._finished:
                count += 1
            return count

    @property
    def asked(self) -> int:
        """How many turns were asked for."""
        with self._lock:
            return self._asking.turns

    def may_ask(self, in_hand: int) -> bool:
        """May another turn be asked for, beside so many that are in hand?"""
        with self._lock:
            return len(self._early) + in_hand < self.at_once

    def ask(self, programs: int, most: int) -> AskedTurn | None:
        """The next turn, of `most` programs at most. `programs`: how many the lane has in all, 0 for no limit. `None`
        when all of them were asked for, or when no generator has another one."""
        while True:
            with self._lock:
                if not self._asking.unlisted:
                    return self._ask(programs, most)
            self._asking.list_arms()  # without the lock: who looks for work must not wait for it

    def _ask(self, programs: int, most: int) -> AskedTurn | None:
        asking = self._asking
        left = programs - asking.programs if programs else asking.batch
        # Asked of the turns in hand, not of those that are finished: when these end is a matter of the clock.
        if left <= 0 or asking.exhausted:
            return None
        self._catch_up()
        requests = asking.requests(left)
        short = left < asking.turn_size or most < len(requests)
        asked = AskedTurn(asking.turns, tuple(requests[:most]), Counter(asking.rejections), short)
        asking.count(asked.number, ((*arm, count) for arm, count in asked.arms.items()))
        return asked

    def preview(self, programs: int) -> list[ProgramRequest]:
        """What the next turn will ask for; of use where turns know all before them."""
        with self._lock:
            self._catch_up()
            left = programs - self._asking.programs if programs else self._asking.batch
            return self._asking.requests(left) if left > 0 else []

    def _catch_up(self) -> None:
        """Learn what the next turn is to know, and no more."""
        known = needed(self._asking.turns, self._lag)
        while self._unknown and self._unknown[0].number < known:
            self._asking.learn(self._unknown.popleft())

    def finish(self, asked: AskedTurn, outcome: Outcome, write: Callable[[Outcome], Turn]) -> None:
        """A turn is done. `write` is called for it when all before it are written, and for those that waited for it."""
        with self._writing:
            with self._lock:
                self._early[asked.number] = outcome
            while self._finished in self._early:
                turn = write(self._early[self._finished])  # may take long: nobody but another writer waits for it
                with self._lock:
                    del self._early[turn.number]
                    self._end(turn)

    def rebuild(self, turn: Turn) -> None:
        """A turn from the store, the lane having absorbed it."""
        with self._lock:
            self._asking.count(turn.number, ((generator, arm, count) for generator, arm, count, _ in turn.body.arms))
            self._end(turn)

    def _end(self, turn: Turn) -> None:
        self._unknown.append(turn)
        self._finished = turn.number + 1
