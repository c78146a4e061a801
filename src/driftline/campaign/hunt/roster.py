"""Which lane works next in a hunt, and on what: a turn of new programs, or a suspect from an earlier one.

A lane may have several turns in hand (`pipeline.py`) while its suspects are examined: what it asks for does not depend
on what comes of them. A hunt by numbers must end in the same way every time: there a lane's suspects are examined one
after the other, in their order, since what is known of a bug spares later suspects a closer look.
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

GRACE = 15.0  # seconds after the end of the budget for what is still running; of a short one less
SHARE_OF_GRACE = 0.05
PIECES = 8  # of a turn, for each processor that it has
REPEATS = 4  # suspects that look like what was seen before, examined after one turn
REPEATS_SHARE = 0.25  # of a lane's time, for them


class LaneWork(Enum):
    TURN = "turn"
    NEW_SUSPECT = "new suspect"
    REPEATED_SUSPECT = "repeated suspect"


@dataclass(frozen=True, eq=False)
class LaneTask:
    pipeline: Pipeline[Any]
    work: LaneWork
    started: float
    pieces: int = 1  # in which it is best run, side by side
    width: int = 1  # processors that it has on average

    @property
    def lane(self) -> Lane:
        return self.pipeline.lane

    place_time: PlaceTime = field(default_factory=PlaceTime)

    @property
    def seconds(self) -> float:
        """What it has taken so far, over all its processors. Where many wait for places of the pool, that is the time
        for which it had them: by the clock on the wall, a quick compiler pays for the slow ones beside it. On a cluster
        there are no such places, and what foremen took is known when a turn is back."""
        if self.place_time.begun:
            return self.place_time.seconds
        return (time.monotonic() - self.started) * self.width


@dataclass
class _Standing:
    """How far a lane is."""

    pipeline: Pipeline[Any]
    spent: float
    new: int  # suspects that wait
    repeated: int
    examined: int = 0
    examining_seconds: float = 0.0
    repeats: int = 0  # examined since the last turn
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
        """What it has had of the time, by which the next one is chosen."""
        return self.spent + sum(task.seconds for task in self.in_hand), len(self.in_hand)

    @property
    def needed(self) -> float:
        """Seconds for the suspects that seem new, at the usual pace."""
        return self.new * (self.examining_seconds / self.examined if self.examined else 1.0)


class Roster:
    """Shares the time evenly between the lanes. `time_left` is infinite in a hunt without a budget."""

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
        """`waiting`: the lanes with the number of suspects that still wait, new and repeated ones. `in_order`: all of
        them count as new, and are examined as they came. `ready`: is the compiler of a lane imported? Those that are
        have turns while others are being started; of several that are not, the first one is waited for. `turns`: are
        there new programs too, or only suspects to examine? `behind`: has a lane had so few programs that it goes
        first? One turn of each such lane, on half of the processors at most: the others' suspects must not wait."""
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
        """Processors for a turn: more than one when there are more of them than turns."""
        turns = sum(standing.pipeline.at_once for standing in self._standings.values() if not standing.done)
        return max(1, -(-self._jobs // max(1, turns)))

    def _pieces(self, width: int) -> int:
        """Into how many a turn is divided. More than it has processors: one that takes long, as the judgement of some
        failures does, must not hold up its turn, for which later ones wait. With a lane for every processor there is
        nothing to gain, and each further worker has to import what the first one has."""
        active = sum(not standing.ended for standing in self._standings.values())
        return 1 if active >= self._jobs > 1 else min(self._jobs, PIECES * width)

    @property
    def _examiners(self) -> int:
        """How many suspects of a lane are examined at once: with half of its share of the processors."""
        active = sum(not standing.ended for standing in self._standings.values())
        return 1 if self._in_order else max(1, self._jobs // max(1, active) // 2)

    def take(self) -> LaneTask | None:
        """Something to do for the lane that has had least; waits while others may bring something. `None` when
        nothing is left to do."""
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
        """The offers of lanes that go first, as long as half of the processors are free of such."""
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
        idle = not may_turn and not self._in_order  # whoever asks has nothing else to do for this lane
        if new + repeated < self._examiners or idle:
            if standing.new > new:
                return LaneWork.NEW_SUSPECT
            spare = idle and not standing.turning  # no turn waits for the processors that they take
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
        # The last of the time is for what waits already, and for turns that end in it.
        left = self._time_left()
        waiting = sum(s.needed for s in self._standings.values()) / self._jobs
        lane = standing.pipeline.lane
        return waiting < left and lane.seconds_for(lane.shortest) < left + self._grace / 2

    def finish(self, task: LaneTask, *, new: int = 0, repeated: int = 0) -> None:
        """The task is done; a turn brought so many suspects, or those of several turns that waited for it."""
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
                    standing.new = max(0, standing.new - 1)  # none are left when the lane was retired meanwhile
                else:
                    standing.repeated = max(0, standing.repeated - 1)
                    standing.repeats += 1
            self._changed.notify_all()

    def retire(self, lane: Lane, *, at_once: bool = False) -> None:
        """The lane has no more turns; with `at_once` its suspects are not examined either."""
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
