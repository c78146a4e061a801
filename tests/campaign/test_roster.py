"""The roster shares the time: suspects are examined beside the turns, and by numbers one after the other."""

from __future__ import annotations

import math
import threading
from dataclasses import replace

from test_lane import make_lane

from driftline.campaign.hunt.pipeline import Pipeline
from driftline.campaign.hunt.roster import REPEATS, LaneTask, LaneWork, Roster
from driftline.core.target import Target


def roster(*, new: int = 0, repeated: int = 0, left: float = 1e6, in_order: bool = False, jobs: int = 2) -> Roster:
    return Roster([(Pipeline(make_lane()), new, repeated)], jobs=jobs, time_left=lambda: left, in_order=in_order)


def taken(one: Roster) -> LaneTask:
    task = one.take()
    assert task
    return task


def test_a_lane_goes_on_while_its_suspects_are_examined() -> None:
    one = roster(new=2)
    assert [taken(one).work, taken(one).work] == [LaneWork.NEW_SUSPECT, LaneWork.TURN]


def test_by_numbers_suspects_are_examined_one_after_the_other() -> None:
    one = roster(new=3, left=math.inf, in_order=True, jobs=8)
    examined = [taken(one)]
    assert examined[0].work is LaneWork.NEW_SUSPECT
    turns = [taken(one), taken(one)]
    assert {task.work for task in turns} == {LaneWork.TURN}
    one.retire(turns[0].lane)
    for turn in turns:
        one.finish(turn)
    for _ in range(2):
        one.finish(examined[-1])
        examined.append(taken(one))
    assert {task.work for task in examined} == {LaneWork.NEW_SUSPECT}
    one.finish(examined[-1])
    assert one.take() is None


def test_with_many_processors_a_lane_uses_them() -> None:
    """Half of them for what failed; the turns that may be in hand at once are split into pieces."""
    one = roster(new=100, jobs=16)
    tasks = [taken(one) for _ in range(12)]
    turns = [task for task in tasks if task.work is LaneWork.TURN]
    assert len(turns) == 4 and sum(turn.width for turn in turns) == 16
    assert all(turn.pieces == 16 for turn in turns), "one slow program would hold up many others"
    assert [task.work for task in tasks].count(LaneWork.NEW_SUSPECT) == 8


def test_every_lane_has_something_before_one_has_two() -> None:
    lanes = [replace(make_lane(), target=Target(name)) for name in ("a", "b", "c")]
    one = Roster([(Pipeline(lane), 0, 0) for lane in lanes], jobs=4, time_left=lambda: 1e6, in_order=False)
    assert sorted(taken(one).lane.name for _ in range(3)) == ["a", "b", "c"]


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
    assert [taken(one).work, taken(one).work] == [LaneWork.NEW_SUSPECT] * 2, "half of the processors stand idle"


def test_who_finds_neither_turn_nor_suspect_waits() -> None:
    one = roster(new=1, left=0.5, jobs=1)
    assert taken(one).work is LaneWork.NEW_SUSPECT
    nothing: list[LaneTask | None] = []
    waiting = threading.Thread(target=lambda: nothing.append(one.take()))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive() and not nothing, "there is no time for another turn"
    one.stop()
    waiting.join(5)
    assert nothing == [None]


def test_what_looks_known_is_examined_where_no_turn_needs_the_processors() -> None:
    pipeline: Pipeline[None] = Pipeline(make_lane())
    one = Roster([(pipeline, 0, REPEATS + 3)], jobs=1, time_left=lambda: 1e6, in_order=False)
    one.retire(pipeline.lane)
    assert [taken(one).work for _ in range(REPEATS + 3)] == [LaneWork.REPEATED_SUSPECT] * (REPEATS + 3)


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
        task = taken(one)
        task.lane.timed(1, 60.0, task.lane.batch)
        one.finish(task)
        assert (one.take() is not None) == allowed


def test_lanes_whose_compiler_is_imported_work_while_others_are_started() -> None:
    lanes = [replace(make_lane(), target=Target(name)) for name in ("slow", "quick", "next")]
    cold = {"slow", "quick", "next"}
    one = Roster(
        [(Pipeline(lane), 0, 0) for lane in lanes],
        jobs=2,
        time_left=lambda: 1e6,
        in_order=False,
        ready=lambda lane: lane.name not in cold,
    )
    first = taken(one)
    assert first.lane.name == "slow", "when none is imported, the first one is waited for"
    cold.remove("quick")
    turns = [taken(one) for _ in range(3)]
    assert {task.lane.name for task in turns} == {"quick"}, "though the others have had less"
    cold.clear()
    assert taken(one).lane.name == "next"


def test_a_lane_that_waits_for_places_has_not_had_the_time() -> None:
    """By the clock on the wall, quick compilers paid for the slow ones beside them: with 16 jobs they judged no more
    programs than with 2."""
    lanes = [replace(make_lane(), target=Target(name)) for name in ("quick", "slow")]
    one = Roster([(Pipeline(lane), 0, 0) for lane in lanes], jobs=4, time_left=lambda: 1e6, in_order=False)
    tasks = {task.lane.name: task for task in (taken(one), taken(one))}
    tasks["slow"].place_time.take(4)
    tasks["quick"].place_time.take(1)
    tasks["quick"].place_time.take(-1)
    for task in tasks.values():
        one.finish(task)
    assert taken(one).lane.name == "quick"


def test_lane_with_few_programs_goes_first_on_half_of_the_processors() -> None:
    lanes = [replace(make_lane(), target=Target(name)) for name in ("quick", "slow", "slower")]
    waiting = [(Pipeline(lane), 5 if lane.name == "quick" else 0, 0) for lane in lanes]
    one = Roster(waiting, jobs=2, time_left=lambda: 1e6, in_order=False, behind=lambda lane: lane.name != "quick")
    one._standings["slow"].spent = one._standings["slower"].spent = 100.0
    first, second = taken(one), taken(one)
    assert (first.lane.name, first.work) == ("slow", LaneWork.TURN), "though it had more of the time"
    assert second.work is LaneWork.NEW_SUSPECT, "suspects of the others do not wait"
    one.finish(first)
    assert taken(one).lane.name == "slower"
