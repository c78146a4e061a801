"""The roster shares the time: suspects are examined beside the turns, and by numbers everything happens in order."""

from __future__ import annotations

import math
import threading

from test_lane import make_lane

from driftline.campaign.roster import REPEATS, LaneTask, LaneWork, Roster


def roster(*, new: int = 0, repeated: int = 0, left: float = 1e6, in_order: bool = False, jobs: int = 2) -> Roster:
    return Roster([(make_lane(), new, repeated)], jobs=jobs, time_left=lambda: left, in_order=in_order)


def taken(one: Roster) -> LaneTask:
    task = one.take()
    assert task
    return task


def test_a_lane_goes_on_while_its_suspects_are_examined() -> None:
    one = roster(new=2)
    assert [taken(one).work, taken(one).work] == [LaneWork.NEW_SUSPECT, LaneWork.TURN]


def test_by_numbers_a_lane_waits_for_its_suspects() -> None:
    one = roster(new=1, repeated=1, left=math.inf, in_order=True)
    done = []
    for _ in range(3):
        task = taken(one)
        others: list[LaneTask | None] = []
        waiting = threading.Thread(target=lambda found=others: found.append(one.take()))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive(), "a second thing was begun before the first was done"
        done.append(task.work)
        one.retire(task.lane) if task.work is LaneWork.TURN else None
        one.finish(task)
        waiting.join(5)
        if others and others[0]:
            one.finish(others[0])
            done.append(others[0].work)
        if len(done) == 3:
            break
    assert done == [LaneWork.NEW_SUSPECT, LaneWork.REPEATED_SUSPECT, LaneWork.TURN]


def test_repeats_leave_time_for_turns() -> None:
    one = roster(repeated=100, jobs=1)
    works = []
    for _ in range(3 * (REPEATS + 1)):
        task = taken(one)
        works.append(task.work)
        one.finish(task)
    assert works.count(LaneWork.TURN) >= 3


def test_the_last_of_the_time_is_for_what_waits() -> None:
    one = roster(new=10, left=4.0, jobs=2)  # at a second for each, two at a time, five are needed
    task = taken(one)
    assert task.work is LaneWork.NEW_SUSPECT
    nothing: list[LaneTask | None] = []
    waiting = threading.Thread(target=lambda: nothing.append(one.take()))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive() and not nothing, "there is no time for another turn"
    one.stop()
    waiting.join(5)
    assert nothing == [None]


def test_a_retired_lane_brings_no_suspect_back() -> None:
    one = roster(new=3)
    task = taken(one)
    one.retire(task.lane, at_once=True)
    one.finish(task)
    assert one.take() is None


def test_everybody_goes_home_when_nothing_is_left() -> None:
    one = roster(left=math.inf, in_order=True)
    turn = taken(one)
    one.retire(turn.lane)
    one.finish(turn, new=1)
    last = taken(one)
    assert last.work is LaneWork.NEW_SUSPECT
    one.finish(last)
    assert one.take() is None


def test_a_turn_is_not_begun_where_not_even_a_short_one_would_end_in_time() -> None:
    for left, allowed in ((30.0, True), (5.0, False)):
        one = roster(left=left)
        lane = taken(one).lane
        lane.pace = 60.0 / lane.batch
        one.finish(LaneTask(lane, LaneWork.TURN, 0.0))
        assert (one.take() is not None) == allowed
