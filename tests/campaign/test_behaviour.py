"""A program that fires a rewrite rule for the first time is worth changing further, though it passes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from driftline.campaign.hunt.lane import Lane
from driftline.checking.batch import Screened, Screening
from driftline.checking.batch_requests import PreparedProgram, ProgramRequest
from driftline.core.program import Program
from driftline.core.target import Target
from driftline.execute.pool import Pool
from driftline.generate.graph import Graph
from driftline.store.hunts import Turn

INDUCTOR = Target("inductor")


def _lane() -> Lane:
    return Lane(INDUCTOR, "torch", 1, 4, {"graph": ["cumsum"]}, {"cumsum": 0}, ("random",))


def _passed(*rules: str) -> Screened:
    request = ProgramRequest("graph", "cumsum", 0, (), "")
    program = Program("source", "torch", "", Path(), "")
    made = PreparedProgram(program, "", "", (), grad=False, company="plain", graph_text=Graph((), (), ()).to_text())
    return Screened(request, "pass", made=made, behaviour=rules)


def test_a_new_rule_is_rewarded_once() -> None:
    lane = _lane()
    body = lane.summarise([_passed("a"), _passed("a"), _passed()], 1.0)
    assert body.keys == ("rule a",) and len(body.interesting) == 1
    assert body.arms == (("graph", "cumsum", 3, 0.3),)
    lane.absorb(Turn(lane.name, 0, body))
    assert lane.summarise([_passed("a")], 1.0).interesting == ()


def test_inductor_tells_which_program_of_a_group_fired_a_rule(pool: Pool) -> None:
    """Ten programs are compiled as one graph; a rule is put down to the program whose lines it rewrote."""
    requests = [ProgramRequest("graph", arm, 0, ("random",), seed="s") for arm in ("relu", "permute", "sin", "cumsum")]
    requests[1] = replace(requests[1], strategies=("random", "nan", "infinities"))  # they need not have as many
    with Screening(pool, "torch", seed=3) as screening:
        results = screening.screen(requests, INDUCTOR)
        again = screening.screen(requests, INDUCTOR)
    assert [result.judgement for result in results] == ["pass"] * 4
    assert [result.behaviour for result in results] == [result.behaviour for result in again]
    assert all(result.made and result.made.graph for result in results)
