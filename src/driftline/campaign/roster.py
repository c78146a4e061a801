"""Which lane works next in a hunt, and on what: a turn of new programs, or a suspect from an earlier one.

A lane may have a turn while one of its suspects is examined; what it asks for next does not depend on what comes of
that. A hunt by numbers must end in the same way every time: there a lane goes on when all its suspects are settled.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from driftline.campaign.lane import Lane

GRACE = 15.0  # seconds after the end of the budget for what is still running; of a short one less
SHARE_OF_GRACE = 0.05
REPEATS = 4  # suspects that look like what was seen before, examined after one turn
REPEATS_SHARE = 0.25  # of a lane's time, for them


class LaneWork(Enum):
    TURN = "turn"
    NEW_SUSPECT = "new suspect"
    REPEATED_SUSPECT = "repeated suspect"


@dataclass(frozen=True)
class LaneTask:
    lane: Lane
    work: LaneWork
    started: float


@dataclass
class _Standing:
    """How far a lane is."""

    lane: Lane
    seconds: float
    new: int  # suspects that wait
    repeated: int
    examined: int = 0
    examining_seconds: float = 0.0
    repeats: int = 0  # examined since the last turn
    turning: bool = False
    examining: bool = False
    done: bool = False  # no more turns

    @property
    def needed(self) -> float:
        """Seconds for the suspects that seem new, at the usual pace."""
        return self.new * (self.examining_seconds / self.examined if self.examined else 1.0)


class Roster:
    """Shares the time evenly between the lanes. `time_left` is infinite in a hunt without a budget."""

    def __init__(
        self,
        waiting: Iterable[tuple[Lane, int, int]],
        *,
        jobs: int,
        time_left: Callable[[], float],
        in_order: bool,
        grace: float = GRACE,
    ) -> None:
        """`waiting`: the lanes with the number of suspects that still wait, new and repeated ones."""
        self._standings = {lane.name: _Standing(lane, lane.seconds, new, repeated) for lane, new, repeated in waiting}
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
    def shards(self) -> int:
        """In how many pieces a turn is best run: more than one when there are more processors than lanes."""
        active = sum(not standing.done for standing in self._standings.values())
        return max(1, self._jobs // max(1, active))

    def take(self) -> LaneTask | None:
        """Something to do for the lane that has had least; waits while others may bring something. `None`: go home."""
        with self._changed:
            while not self.stopped:
                offers = [(s, work) for s in self._standings.values() if (work := self._work_for(s))]
                if offers:
                    standing, work = min(offers, key=lambda offer: offer[0].seconds)
                    standing.turning |= work is LaneWork.TURN
                    standing.examining |= work is not LaneWork.TURN
                    return LaneTask(standing.lane, work, time.monotonic())
                if not any(s.turning or s.examining for s in self._standings.values()):
                    return None
                self._changed.wait(1.0)
            return None

    def _work_for(self, standing: _Standing) -> LaneWork | None:
        if not standing.examining:
            if standing.new:
                return LaneWork.NEW_SUSPECT
            if standing.repeated and (self._in_order or self._has_room(standing)):
                return LaneWork.REPEATED_SUSPECT
        return LaneWork.TURN if self._may_turn(standing) else None

    def _has_room(self, standing: _Standing) -> bool:
        return standing.repeats < REPEATS and standing.examining_seconds <= REPEATS_SHARE * standing.seconds

    def _may_turn(self, standing: _Standing) -> bool:
        if standing.turning or standing.done:
            return False
        if self._in_order:
            return not standing.examining
        # The last of the time is for what waits already, and for turns that end in it.
        left = self._time_left()
        waiting = sum(s.needed for s in self._standings.values()) / self._jobs
        lane = standing.lane
        return waiting < left and lane.seconds_for(lane.shortest) < left + self._grace / 2

    def finish(self, task: LaneTask, *, new: int = 0, repeated: int = 0) -> None:
        """The task is done; a turn brought so many suspects."""
        with self._changed:
            standing = self._standings[task.lane.name]
            seconds = time.monotonic() - task.started
            standing.seconds += seconds
            if task.work is LaneWork.TURN:
                standing.turning = False
                standing.new += new
                standing.repeated += repeated
                standing.repeats = 0
            else:
                standing.examining = False
                standing.examining_seconds += seconds
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
                standing.new = standing.repeated = 0
            self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
