"""A lane asks for the same programs under the same seed, and goes on from its stored turns as if it had not stopped."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driftline.campaign.hunt.lane import PROMPT, RECENT, Lane
from driftline.campaign.hunt.lane_arms import LaneArms
from driftline.campaign.hunt.pipeline import Pipeline
from driftline.campaign.hunt.turn_summary import INTERESTING, failure_key
from driftline.checking.batch import Screened
from driftline.checking.batch_requests import PreparedProgram, ProgramRequest
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.core.wire import decode, encode
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.store import Store
from driftline.store.hunts import HuntLog, Turn, TurnBody

NAMES = ["abs", "exp", "relu"]
ARMS = {"alone": NAMES, "graph": NAMES, "layers": ["linear_chain"], "optests": ["Abs"], "mutate": ["change a dtype"]}


def make_lane(seed: int = 0) -> Lane:
    alone = {"abs": 2, "exp": 1, "relu": 1}
    return Lane(Target("onnxruntime"), "onnx", seed, 10, ARMS, alone, ("random", "specials"), frozenset({"mutate"}))


def judged(request: ProgramRequest, judgement: str, **more: Any) -> Screened:
    return Screened(request, judgement, coverage=((request.arm, "float32"),), **more)


def played(lane: Lane, turns: int) -> list[list[ProgramRequest]]:
    """Ask for so many turns; `exp` always fails, `relu` is refused."""
    asked = []
    for _ in range(turns):
        requests = lane.requests(lane.batch)
        asked.append(requests)
        answers = {"exp": "fail", "relu": "rejected"}
        results = [judged(request, answers.get(request.arm, "pass"), kind="wrong-value") for request in requests]
        lane.absorb(Turn(lane.name, lane.turns, lane.summarise(results, 1.0)))
    return asked


def test_same_seed_same_programs() -> None:
    assert played(make_lane(), 5) == played(make_lane(), 5)
    assert played(make_lane(seed=1), 5) != played(make_lane(), 5)


def test_a_rebuilt_lane_goes_on_as_before() -> None:
    whole, first = make_lane(), make_lane()
    expected = played(whole, 6)
    bodies = []
    for _ in range(3):
        requests = first.requests(first.batch)
        answers = {"exp": "fail", "relu": "rejected"}
        body = first.summarise(
            [judged(r, answers.get(r.arm, "pass"), kind="wrong-value") for r in requests], seconds=9.0
        )
        bodies.append(body)
        first.absorb(Turn(first.name, first.turns, body))
    rebuilt = make_lane()
    for number, body in enumerate(bodies):
        rebuilt.absorb(Turn(rebuilt.name, number, body))
    assert played(rebuilt, 3) == expected[3:]


def test_no_program_is_asked_for_twice() -> None:
    asked = [(r.generator, r.arm, r.number) for turn in played(make_lane(), 8) for r in turn]
    assert len(asked) == len(set(asked))


def test_all_generators_are_in_the_first_turn() -> None:
    first, *_ = played(make_lane(), 1)
    assert {request.generator for request in first} == {"alone", "graph", "layers", "optests"}


def test_generators_that_are_slow_to_start_come_after_the_first_turns() -> None:
    turns = played(replace(make_lane(), late=frozenset({"optests"})), 12)
    asked = [{request.generator for request in turn} for turn in turns]
    assert all(generators and "optests" not in generators for generators in asked[:PROMPT])
    assert "optests" in asked[PROMPT], "as one that was not asked yet, it is asked first then"


@pytest.mark.parametrize("others", [(), ("mutate",), ("alone",)])
def test_they_come_at_once_where_nothing_else_makes_programs(others: tuple[str, ...]) -> None:
    lane = replace(make_lane(), late=frozenset({"optests"}), arms={name: ARMS[name] for name in (*others, "optests")})
    turns = played(lane, PROMPT)
    asked = [{request.generator for request in turn} for turn in turns]
    assert all(asked) and "optests" in asked[-1] and not lane.exhausted
    assert ("alone" in asked[0]) == ("alone" in others)


def test_one_that_turns_out_to_have_no_arms_is_not_asked_for_a_program() -> None:
    """Of a shard that has no operator to try alone, nothing else could be asked in the first turns."""
    arms = LaneArms(["alone", "optests"], {"alone": ()}, dict)
    lane = replace(make_lane(), late=frozenset({"optests"}), arms=arms)
    assert lane.requests(4) == [] and lane.exhausted


@pytest.mark.parametrize("listed", [("Abs", "Exp"), ()], ids=["which has arms", "which has none"])
def test_what_is_listed_later_gives_the_same_programs(listed: tuple[str, ...]) -> None:
    late = frozenset({"optests"})
    before = {name: arms for name, arms in ARMS.items() if name != "optests"}
    at_once = {name: before.get(name, listed) for name in ARMS if name in before or listed}
    asked: list[int] = []
    lane = replace(make_lane(), late=late)

    def ask() -> dict[str, tuple[str, ...]]:
        asked.append(lane.turns)
        return {"optests": listed} if listed else {}

    lane.arms = LaneArms(list(ARMS), before, ask)
    assert played(lane, 12) == played(replace(make_lane(), late=late, arms=at_once), 12)
    assert asked == [PROMPT], "once, and not before it is needed"


def test_a_turn_waits_for_what_is_listed_later_while_others_see_what_there_is_to_do() -> None:
    lane = replace(make_lane(), late=frozenset({"optests"}))
    seen: list[bool] = []

    def ask() -> dict[str, tuple[str, ...]]:
        with ThreadPoolExecutor(1) as other:
            seen.append(other.submit(pipeline.may_ask, 0).result(timeout=30))
        return {"optests": ("Abs",)}

    lane.arms = LaneArms(list(ARMS), {name: ARMS[name] for name in ARMS if name != "optests"}, ask)
    pipeline: Pipeline[Any] = Pipeline(lane)
    turns = [pipeline.ask(0, 100) for _ in range(PROMPT + 1)]
    assert seen == [True]
    assert turns[-1] and "optests" in {request.generator for request in turns[-1].requests}


def test_operators_alone_are_tried_in_every_way_and_no_more() -> None:
    asked = [r for turn in played(make_lane(), 12) for r in turn if r.generator == "alone"]
    assert {(r.arm, r.number) for r in asked} == {("abs", 0), ("abs", 1), ("exp", 0), ("relu", 0)}
    assert [r.number for r in asked] == sorted(r.number for r in asked), "the least tried first"


def test_random_programs_are_not_operators_alone_again() -> None:
    lane = make_lane()
    asked = [r for turn in played(lane, 12) for r in turn if r.generator == "graph"]
    assert asked and all(r.number >= lane.alone[r.arm] for r in asked)


def test_a_lane_with_operators_alone_ends_when_all_were_tried() -> None:
    lane = make_lane()
    lane.arms = {"alone": NAMES}
    asked = [r for turn in played(lane, 3) for r in turn]
    assert sorted((r.arm, r.number) for r in asked) == [("abs", 0), ("abs", 1), ("exp", 0), ("relu", 0)]
    assert lane.exhausted


def test_a_generator_that_brings_more_gets_more() -> None:
    lane = make_lane()
    lane.arms = {"graph": ["abs"], "layers": ["linear_chain"]}
    asked = []
    for turn in range(40):
        requests = lane.requests(lane.batch)
        asked += [r.generator for r in requests]
        results = [
            Screened(r, "pass", behaviour=(f"{turn}/{n}",) if r.generator == "layers" else ())
            for n, r in enumerate(requests)
        ]
        lane.absorb(Turn(lane.name, lane.turns, lane.summarise(results, 1.0)))
    assert asked.count("layers") > 3 * asked.count("graph") > 0


def test_operators_that_meet_for_the_first_time_are_rewarded_once() -> None:
    program = Program("source", "torch", "", Path(), "")
    made = PreparedProgram(program, "", "", (), grad=False, company="plain", pairs=("abs>exp",))
    result = Screened(ProgramRequest("graph", "abs", 9, (), ""), "pass", made=made)
    lane = make_lane()
    body = lane.summarise([result, result], 1.0)
    assert (body.pairs, body.arms) == (("abs>exp",), (("graph", "abs", 2, 0.05),))
    lane.absorb(Turn(lane.name, 0, body))
    assert lane.summarise([result], 1.0).pairs == ()


def test_a_refused_program_says_nothing_about_each_of_its_operators() -> None:
    lane = make_lane()
    request = ProgramRequest("graph", "abs", 9, (), "")
    for coverage in ((("abs", "float32"), ("exp", "float32")), (("relu", "float32"),)):
        results = [Screened(request, "rejected", coverage=coverage)] * 2
        lane.absorb(Turn(lane.name, lane.turns, lane.summarise(results, 1.0)))
    assert lane.avoid == ["relu float32"]


def test_what_is_refused_or_hopeless_is_avoided() -> None:
    lane = make_lane()
    played(lane, 8)
    assert lane.avoid == ["exp float32", "relu float32"]


def test_a_graph_that_can_only_fail_is_not_changed_further() -> None:
    kind = TensorType("float32", (2,))
    graphs = {name: Graph((Leaf("input", kind),), (Node(name, (0,), (kind,)),), (1,)) for name in ("abs", "exp")}
    lane = make_lane()
    played(lane, 8)
    lane.graphs.extend(graphs.values())
    bases = [r.base for turn in played(lane, 20) for r in turn if r.generator == "mutate"]
    assert bases and all(base == graphs["abs"] for base in bases)


def test_no_generator_starves() -> None:
    lane = make_lane()
    asked = [r.generator for turn in played(lane, 60) for r in turn]
    assert asked.count("optests") > 0.05 * len(asked)
    assert "mutate" not in asked  # there was no graph to change


def test_half_of_the_inputs_are_special() -> None:
    for turn in played(make_lane(), 4):
        for request in turn:
            assert sorted(request.strategies) in (["random", "specials"], ["infinities", "nan", "random"])
            assert len(request.strategies) == 2 or request.generator == "alone"


def test_the_last_turn_is_as_long_as_there_is_time() -> None:
    lane = make_lane()
    assert lane.done_in(5.0) == lane.batch, "nothing is known of its pace"
    lane.timed(0, 900.0, lane.batch)
    assert lane.done_in(5.0) == lane.batch, "in the first turn the compiler is started"
    for number, seconds in ((1, 300.0), *((number, 1.0) for number in range(2, 2 + RECENT))):
        lane.timed(number, seconds, lane.batch)
    pace = 1.0 / lane.batch  # of the last turns, not of those at the beginning
    assert lane.done_in(math.inf) == lane.batch
    assert lane.done_in(pace * (lane.batch - 1.5)) == lane.batch - 2
    assert lane.done_in(-1.0) == lane.shortest


def test_a_turn_keeps_its_slowest_programs() -> None:
    lane = make_lane()
    requests = lane.requests(10)
    took = [{"make": 0.1}, {"judge": 9.0, "run": 2.5}, {"run": 4.0}, {"judge": 1.9}]
    results = [replace(judged(one, "pass"), seconds=own) for one, own in zip(requests, took, strict=False)]
    slowest = lane.summarise(results, 20.0).slowest
    assert [(one.seconds, one.step) for one in slowest] == [(9.0, "judge"), (4.0, "run"), (2.5, "run")]
    assert slowest[0].name == f"{requests[1].generator}:{requests[1].arm}#{requests[1].number}"


def test_a_failure_is_named_by_its_error_or_by_what_its_program_is_about() -> None:
    about_exp, drawn = ProgramRequest("graph", "exp", 0, (), ""), ProgramRequest("mutate", "any", 1, (), "")
    assert failure_key(judged(about_exp, "pass")) == ""
    assert failure_key(judged(about_exp, "fail", kind="wrong-value")) == "wrong-value exp"
    assert failure_key(judged(about_exp, "fail", kind="error", stage="RUN", reason="no such")) == "error RUN no such"
    of_two = replace(judged(drawn, "fail", kind="wrong-value"), coverage=(("sin", "float32"), ("abs", "float32")))
    assert failure_key(of_two) == "wrong-value abs sin"


def test_a_turn_keeps_a_few_graphs_of_new_failures() -> None:
    requests = [ProgramRequest("graph", f"operator{n}", n, (), "") for n in range(INTERESTING + 2)]
    program = Program("onnx", "onnx", "", Path("p"), "p")
    made = PreparedProgram(program, "", "", (), grad=False, company="plain", graph_text=json.dumps(OLD_GRAPH))
    turn = make_lane().summarise([judged(one, "fail", kind="wrong-value", made=made) for one in requests], 1.0)
    assert len(turn.keys) == INTERESTING + 2 and len(turn.interesting) == INTERESTING


# As they were written when requests and turns were plain dictionaries
OLD_GRAPH = {
    "leaves": [{"kind": "input", "dtype": "float32", "shape": [2], "values": "any", "layout": "plain", "seed": 0}],
    "nodes": [{"op": "abs", "inputs": [0], "outputs": [["float32", [2]]], "attributes": {"x": {"float": "nan"}}}],
    "outputs": [1],
    "grad": False,
    "varying": 0,
}
OLD_TURN = {
    "programs": 2,
    "seconds": 1.5,
    "counts": {"pass": 1, "fail": 1},
    "reasons": {},
    "coverage": {"abs float32": {"pass": 1, "fail": 1}},
    "arms": [["graph", "abs", 2, 1.0]],
    "interesting": [OLD_GRAPH],
    "keys": ["wrong-value abs"],
}
OLD_SUSPECT = {
    "request": {
        "generator": "mutate",
        "arm": "change a dtype",
        "number": 3,
        "base": OLD_GRAPH,
        "strategies": ["random", "specials"],
        "seed": "0/mutate/change a dtype/3",
        "avoid": ["exp float32"],
    },
    "new": True,
    "kind": "wrong-value",
    "stage": "RUN",
    "reason": "output: expected 1, got 2",
}


def test_turns_and_suspects_of_older_stores_are_read(tmp_path: Path) -> None:
    with Store.create(tmp_path / "store") as store:
        log = HuntLog(store)
        hunt, lane = log.begin({}, {}), make_lane()
        with store.transaction() as database:
            database.execute("INSERT INTO turns VALUES (?, ?, 0, ?)", (hunt.id, lane.name, json.dumps(OLD_TURN)))
            database.execute(
                "INSERT INTO suspects (hunt, lane, turn, body, state, bug) VALUES (?, ?, 0, ?, 'waiting', '')",
                (hunt.id, lane.name, json.dumps(OLD_SUSPECT)),
            )
        for turn in log.turns(hunt):
            lane.absorb(turn)
        (suspect,) = log.waiting(hunt, lane.name, new=True)
    assert (lane.turns, lane.programs, lane.seen) == (1, 2, {"wrong-value abs"})
    assert [graph.to_json() for graph in lane.graphs] == [OLD_GRAPH]
    request = decode(ProgramRequest, suspect.body.request)
    assert request.base and request.base.operators == ("abs",) and request.number == 3
    assert json.loads(json.dumps(encode(ProgramRequest, request))) == OLD_SUSPECT["request"], (
        "and are written as before"
    )
    assert json.loads(json.dumps(encode(TurnBody, turn.body))) == {
        key: value for key, value in OLD_TURN.items() if value
    }
