"""Several turns of a lane in hand give the same programs as one at a time, in the same order; resumed lanes too."""

from __future__ import annotations

import random

import pytest
from test_lane import ARMS, judged, make_lane

from driftline.campaign.hunt.pipeline import LAG, AskedTurn, Pipeline, needed
from driftline.checking.batch_requests import ProgramRequest
from driftline.store.hunts import Turn

ANSWERS = {"exp": "fail", "relu": "rejected"}


def carried_out(pipeline: Pipeline[AskedTurn], asked: AskedTurn) -> None:
    """The turn is done; it is written when its time has come."""

    def write(done: AskedTurn) -> Turn:
        results = [judged(one, ANSWERS.get(one.arm, "pass"), kind="wrong-value") for one in done.requests]
        turn = Turn(pipeline.lane.name, done.number, pipeline.lane.summarise(results, 1.0))
        pipeline.lane.absorb(turn)
        WRITTEN.append(turn)
        return turn

    pipeline.finish(asked, asked, write)


WRITTEN: list[Turn] = []


def played(pipeline: Pipeline[AskedTurn], turns: int, at_once: int, seed: int = 0) -> list[tuple[ProgramRequest, ...]]:
    """So many turns with so many in hand, which end in any order."""
    rng = random.Random(seed)
    in_hand: list[AskedTurn] = []
    asked: list[tuple[ProgramRequest, ...]] = []
    while len(asked) < turns or in_hand:
        if len(asked) < turns and len(in_hand) < at_once and pipeline.may_ask(len(in_hand)):
            turn = pipeline.ask(0, 100)
            assert turn
            in_hand.append(turn)
            asked.append(turn.requests)
        else:
            carried_out(pipeline, in_hand.pop(rng.randrange(len(in_hand))))
    return asked


@pytest.fixture(autouse=True)
def nothing_written() -> None:
    WRITTEN.clear()


def test_the_programs_do_not_depend_on_how_many_turns_are_in_hand() -> None:
    one_by_one = played(Pipeline(make_lane()), 14, at_once=1)
    alone = list(WRITTEN)
    for at_once in (2, 3, 16):
        for seed in range(3):
            WRITTEN.clear()
            assert played(Pipeline(make_lane()), 14, at_once, seed) == one_by_one
            assert alone == WRITTEN


def test_a_rebuilt_lane_goes_on_as_before() -> None:
    expected = played(Pipeline(make_lane()), 14, at_once=LAG)
    stored = list(WRITTEN)
    for turns in range(14):
        rebuilt: Pipeline[AskedTurn] = Pipeline(make_lane())
        for turn in stored[:turns]:
            rebuilt.lane.absorb(turn)
            rebuilt.rebuild(turn)
        assert played(rebuilt, 14 - turns, at_once=LAG) == expected[turns:]


def test_no_program_is_asked_for_twice() -> None:
    asked = [(r.generator, r.arm, r.number) for turn in played(Pipeline(make_lane()), 10, LAG) for r in turn]
    assert len(asked) == len(set(asked))


def test_turns_begin_small_and_grow() -> None:
    assert [len(turn) for turn in played(Pipeline(make_lane()), 4, LAG)] == [4, 8, 10, 10]


def test_the_lag_is_bounded_and_what_a_turn_knows_only_grows() -> None:
    known = [needed(number, LAG) for number in range(150)]
    assert known == sorted(known)
    assert all(number - count < LAG for number, count in enumerate(known) if number > LAG)
    assert [needed(number, 1) for number in range(9)] == list(range(9))


def test_a_lane_by_numbers_asks_for_its_number_whatever_is_in_hand() -> None:
    pipeline: Pipeline[AskedTurn] = Pipeline(make_lane())
    asked = [pipeline.ask(10, 100), pipeline.ask(10, 100)]
    assert [len(turn.requests) for turn in asked if turn] == [4, 6]
    assert pipeline.ask(10, 100) is None


@pytest.mark.parametrize("generators", [["alone"], ["alone", "mutate"]])
def test_a_lane_that_has_tried_everything_ends_at_the_same_turn_whatever_is_in_hand(generators: list[str]) -> None:
    written = []
    for at_once in (1, 16):
        WRITTEN.clear()
        lane = make_lane()
        lane.arms = {name: ARMS[name] for name in generators}
        pipeline: Pipeline[AskedTurn] = Pipeline(lane)
        in_hand: list[AskedTurn] = []
        while True:
            while len(in_hand) < at_once and pipeline.may_ask(len(in_hand)) and (turn := pipeline.ask(0, 100)):
                in_hand.append(turn)
            if not in_hand:
                break
            carried_out(pipeline, in_hand.pop())
        assert all(turn.body.programs for turn in WRITTEN)
        written.append(list(WRITTEN))
    assert written[0] == written[1]
