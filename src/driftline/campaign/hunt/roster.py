"""Chooses the lane that works next in a hunt, and its work: a turn of new programs, or a suspect of an earlier turn.

A lane may run several turns (`pipeline.py`) while its suspects are examined: its requests do not depend on the outcome.
A hunt by numbers must end in the same way every time, so there a lane's suspects are examined one after the other, in
order, since a known bug spares later suspects a closer look.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from driftline.campaign.hunt.lane import Lane
from driftline.campaign.hunt.pipeline import Pipeline
from driftline.execute.slots import PlaceTime

GRACE = 15.0  # seconds after the end of the budget for work that still runs; less for a short budget
SHARE_OF_GRACE = 0.05
PIECES = 8  # pieces of a turn for each of its processors
REPEATS = 4  # suspects that look like known ones, examined after one turn
REPEATS_SHARE = 0.25  # of a lane's time, for such suspects


class LaneWork(Enum):
    TURN = "turn"
    NEW_SUSPECT = "new suspect"
    REPEATED_SUSPECT = "repeated suspect"


@dataclass(frozen=True, eq=False)
class LaneTask:
    """A task of one lane: a turn, or the examination of a suspect."""

    pipeline: Pipeline[Any]
    work: LaneWork
    started: float
    pieces: int = 1  # into how many pieces a turn is divided, to run in parallel
    width: int = 1  # average number of processors that the task uses

    @property
    def lane(self) -> Lane:
        return self.pipeline.lane

    place_time: PlaceTime = field(default_factory=PlaceTime)

    @property
    def seconds(self) -> float:
        """The seconds used so far, over all processors. If many tasks wait for the pool's workers, only the time with a
        worker counts: by wall clock, a quick compiler would pay for slow ones. On a cluster there is no such count, and
        foremen report theirs when a turn is done."""
        if self.place_time.begun:
            return self.place_time.seconds
        return (time.monotonic() - self.started) * self.width


@dataclass
class _Standing:
    """The progress of a lane."""

    pipeline: Pipeline[Any]
    spent: float
    new: int  # waiting suspects that seem new
    repeated: int
    examined: int = 0
    examining_seconds: float = 0.0
    repeats: int = 0  # repeated suspects examined since the last turn
    in_hand: set[LaneTask] = field(default_factory=set)
    done: bool = False  # no more turns
    ended: bool = False  # and no more suspects

    @property
    def turning(self) -> int:
        return sum(task.work is LaneWork.TURN for task in self.in_hand)

    def examining(self, *works: LaneWork) -> int:
        return sum(task.work in works for task in self.in_hand)

    @property
    def share(self) -> tuple[float, int]:
        """The time that the lane has used, by which the next lane is chosen, and its tasks in hand."""
        return self.spent + sum(task.seconds for task in self.in_hand), len(self.in_hand)

    @property
    def needed(self) -> float:
        """The estimated seconds for examining the suspects that seem new."""
        return self.new * (self.examining_seconds / self.examined if self.examined else 1.0)


class Roster:
    """Shares the time evenly between the lanes. `time_left` returns infinity in a hunt without a budget."""

    def __init__(
        self,
        waiting: Iterable[tuple[Pipeline[Any], int, int]],
        *,
        jobs: int,
        time_left: Callable[[], float],
        in_order: bool,
        grace: float = GRACE,
        ready: Callable[[Lane], bool] = lambda lane: True,
        turns: bool = True,
        behind: Callable[[Lane], bool] = lambda lane: False,
    ) -> None:
        """`waiting`: the lanes, each with its number of new and of repeated suspects. `in_order`: all suspects count as
        new and are examined in order. `ready`: True if the compiler of a lane is imported; such lanes have turns while
        others start. `turns`: False if only suspects are examined. `behind`: True if a lane has had so few programs
        that it goes first; such lanes get one turn each, on at most half of the processors."""
        self._behind = behind
        self._ready = ready
        self._standings = {
            pipeline.lane.name: _Standing(pipeline, pipeline.lane.seconds, new, repeated, done=not turns)
            for pipeline, new, repeated in waiting
        }
        self._jobs = jobs
        self._time_left = time_left
        self._in_order = in_order
        self._grace = grace
        self._changed = threading.Condition()
        self._stopped = False

    @property
    def stopped(self) -> bool:
        return self._stopped or self._time_left() <= 0

    @property
    def _width(self) -> int:
        """The number of processors for a turn: more than one if there are more processors than turns."""
        turns = sum(standing.pipeline.at_once for standing in self._standings.values() if not standing.done)
        return max(1, -(-self._jobs // max(1, turns)))

    def _pieces(self, width: int) -> int:
        """Return into how many pieces a turn is divided. There are more pieces than processors, so that one slow
        program does not delay its turn. With a lane for every processor there is one piece, since each further worker
        has to import the compiler."""
        active = sum(not standing.ended for standing in self._standings.values())
        return 1 if active >= self._jobs > 1 else min(self._jobs, PIECES * width)

    @property
    def _examiners(self) -> int:
        """The number of suspects of a lane that are examined at once, on half of its share of the processors."""
        active = sum(not standing.ended for standing in self._standings.values())
        return 1 if self._in_order else max(1, self._jobs // max(1, active) // 2)

    def take(self) -> LaneTask | None:
        """Return a task for the lane that has had the least time; waits while running tasks may bring more. Returns
        None if nothing is left to do."""
        with self._changed:
            while not self.stopped:
                offers = [(s, work) for s in self._standings.values() if (work := self._work_for(s))]
                if offers:
                    ready = [offer for offer in offers if self._ready(offer[0].pipeline.lane)]
                    first = self._those_behind(ready)
                    standing, work = min(first or ready or offers, key=lambda offer: offer[0].share)
                    width = self._width if work is LaneWork.TURN else 1
                    pieces = self._pieces(width)
                    task = LaneTask(standing.pipeline, work, time.monotonic(), pieces, width)
                    standing.in_hand.add(task)
                    return task
                if not any(s.in_hand for s in self._standings.values()):
                    return None
                self._changed.wait(1.0)
            return None

    def _those_behind(self, offers: list[tuple[_Standing, LaneWork]]) -> list[tuple[_Standing, LaneWork]]:
        """Return offers of turns for the lanes that go first, while they hold less than half of the processors."""
        held = sum(bool(s.in_hand) and self._behind(s.pipeline.lane) for s in self._standings.values())
        if self._in_order or held >= max(1, self._jobs // 2):
            return []
        return [
            (s, LaneWork.TURN)
            for s, _ in offers
            if not s.in_hand and self._behind(s.pipeline.lane) and self._may_turn(s)
        ]

    def _work_for(self, standing: _Standing) -> LaneWork | None:
        new = standing.examining(LaneWork.NEW_SUSPECT)
        repeated = standing.examining(LaneWork.REPEATED_SUSPECT)
        may_turn = self._may_turn(standing)
        idle = not may_turn and not self._in_order  # the thread has nothing else to do for this lane
        if new + repeated < self._examiners or idle:
            if standing.new > new:
                return LaneWork.NEW_SUSPECT
            spare = idle and not standing.turning  # no turn waits for the processors that an examination takes
            if standing.repeated > repeated and (spare or self._has_room(standing, repeated)):
                return LaneWork.REPEATED_SUSPECT
        return LaneWork.TURN if may_turn else None

    def _has_room(self, standing: _Standing, repeated: int) -> bool:
        return standing.repeats + repeated < REPEATS and standing.examining_seconds <= REPEATS_SHARE * standing.spent

    def _may_turn(self, standing: _Standing) -> bool:
        if standing.done or not standing.pipeline.may_ask(standing.turning):
            return False
        if self._in_order:
            return True
        # The end of the time is for waiting suspects, and for turns that end in time.
        left = self._time_left()
        waiting = sum(s.needed for s in self._standings.values()) / self._jobs
        lane = standing.pipeline.lane
        return waiting < left and lane.seconds_for(lane.shortest) < left + self._grace / 2

    def finish(self, task: LaneTask, *, new: int = 0, repeated: int = 0) -> None:
        """Note that a task is done. A turn brought so many suspects, including those of turns that waited for it."""
        with self._changed:
            standing = self._standings[task.lane.name]
            standing.in_hand.discard(task)
            standing.spent += task.seconds
            if task.work is LaneWork.TURN:
                if not standing.ended:
                    standing.new += new
                    standing.repeated += repeated
                standing.repeats = 0
            else:
                standing.examining_seconds += task.seconds
                standing.examined += 1
                if task.work is LaneWork.NEW_SUSPECT:
                    standing.new = max(0, standing.new - 1)  # 0 if the lane was retired meanwhile
                else:
                    standing.repeated = max(0, standing.repeated - 1)
                    standing.repeats += 1
            self._changed.notify_all()

    def retire(self, lane: Lane, *, at_once: bool = False) -> None:
        """Give the lane no more turns; with `at_once`, its suspects are not examined either."""
        with self._changed:
            standing = self._standings[lane.name]
            standing.done = True
            if at_once:
                standing.ended = True
                standing.new = standing.repeated = 0
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
