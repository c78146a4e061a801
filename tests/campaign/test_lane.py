"""A lane asks for the same programs under the same seed, and goes on from its stored turns as if it had not stopped."""

from __future__ import annotations

import math
from typing import Any

from driftline.campaign.lane import Lane
from driftline.checking.batch import Screened
from driftline.core.target import Target
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.store.hunts import Turn

ARMS = {"graph": ["abs", "exp", "relu"], "optests": ["Abs"], "mutate": ["change a dtype"]}


def make_lane(seed: int = 0) -> Lane:
    alone = {"abs": 2, "exp": 1, "relu": 1}
    return Lane(Target("onnxruntime"), "onnx", seed, 10, ARMS, alone, ("random", "specials"), frozenset({"mutate"}))


def judged(request: dict[str, Any], judgement: str, **more: Any) -> Screened:
    made = {"coverage": [[request["arm"], "float32"]], "graph": None}
    return Screened(request, judgement, made=made, **more)


def played(lane: Lane, turns: int) -> list[list[dict[str, Any]]]:
    """Ask for so many turns; `exp` always fails, `relu` is refused."""
    asked = []
    for _ in range(turns):
        requests = lane.requests(lane.batch)
        asked.append(requests)
        answers = {"exp": "fail", "relu": "rejected"}
        results = [judged(request, answers.get(request["arm"], "pass"), kind="wrong-value") for request in requests]
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
            [judged(r, answers.get(r["arm"], "pass"), kind="wrong-value") for r in requests], seconds=9.0
        )
        bodies.append(body)
        first.absorb(Turn(first.name, first.turns, body))
    rebuilt = make_lane()
    for number, body in enumerate(bodies):
        rebuilt.absorb(Turn(rebuilt.name, number, body))
    assert played(rebuilt, 3) == expected[3:]


def test_no_program_is_asked_for_twice() -> None:
    asked = [(r["generator"], r["arm"], r["number"]) for turn in played(make_lane(), 8) for r in turn]
    assert len(asked) == len(set(asked))


def test_operators_come_alone_first() -> None:
    first = played(make_lane(), 2)
    assert {(r["arm"], r["number"]) for turn in first for r in turn} >= {("abs", 0), ("exp", 0), ("relu", 0)}


def test_what_is_refused_or_hopeless_is_avoided() -> None:
    lane = make_lane()
    played(lane, 8)
    assert lane.avoid == ["exp float32", "relu float32"]


def test_a_graph_that_can_only_fail_is_not_changed_further() -> None:
    kind = TensorType("float32", (2,))
    graphs = {
        name: Graph((Leaf("input", kind),), (Node(name, (0,), (kind,)),), (1,)).to_json() for name in ("abs", "exp")
    }
    lane = make_lane()
    played(lane, 8)
    lane.graphs.extend(graphs.values())
    bases = [r["base"] for turn in played(lane, 20) for r in turn if r["generator"] == "mutate"]
    assert bases and all(base == graphs["abs"] for base in bases)


def test_no_generator_starves() -> None:
    lane = make_lane()
    asked = [r["generator"] for turn in played(lane, 60) for r in turn]
    assert asked.count("optests") > 0.05 * len(asked)
    assert "mutate" not in asked  # there was no graph to change


def test_half_of_the_inputs_are_special() -> None:
    for turn in played(make_lane(), 4):
        for request in turn:
            assert sorted(request["strategies"]) == ["random", "specials"]


def test_the_last_turn_is_as_long_as_there_is_time() -> None:
    lane = make_lane()
    assert lane.done_in(5.0) == lane.batch, "nothing is known of its pace"
    played(lane, 2)
    pace = 1.0 / lane.batch
    assert lane.done_in(math.inf) == lane.batch
    assert lane.done_in(pace * (lane.batch - 1.5)) == lane.batch - 2
    assert lane.done_in(-1.0) == lane.shortest
