"""Which parts of a suspect are reported, where a rule says what fails: no worker runs here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from driftline.campaign.triage.part_screening import PartScreening
from driftline.campaign.triage.smallest_parts import SmallestParts
from driftline.checking.batch import Screened
from driftline.checking.batch_requests import PreparedProgram, ProgramRequest
from driftline.core.evidence import NOTHING, Evidence
from driftline.core.program import Program
from driftline.core.tensors import Arrays
from driftline.core.verdict import Kind
from driftline.execute.pool import PoolExpired
from driftline.generate.graph import Graph, Leaf, Node, TensorType

ROW = TensorType("float32", (4,))
IMPRECISE = Evidence(policies=("half-accumulation",))


def chain(*operators: str) -> Graph:
    """Each operator on the result of the one before it."""
    nodes = tuple(Node(name, (number,), (ROW,)) for number, name in enumerate(operators))
    return Graph((Leaf("input", ROW),), nodes, (len(operators),))


def screened(graph: Graph, evidence: Evidence | None) -> Screened:
    """A program that fails with this evidence, or passes."""
    made = PreparedProgram(
        Program(form="source", framework="torch", digest="", path=Path(), name="part"),
        tensors="",
        native="",
        origins=("part",),
        grad=False,
        company="plain",
        graph_text=graph.to_text(),
    )
    request = ProgramRequest("part", "", 0, strategies=("part",), seed="", graph=graph)
    if evidence is None:
        return Screened(request, "pass", made=made)
    return Screened(request, "fail", kind=Kind.WRONG_VALUE, evidence=evidence, made=made)


class RuledScreening(PartScreening):
    """`rule` gives the evidence of a program that fails."""

    def __init__(self, rule: Callable[[Graph], Evidence | None]) -> None:
        self._rule = rule
        self.batches: list[Sequence[ProgramRequest]] = []

    def screen(self, requests: Sequence[ProgramRequest]) -> list[Screened]:
        self.batches.append(requests)
        return [screened(request.graph, self._rule(request.graph)) for request in requests if request.graph]

    def inputs(self, failing: Screened) -> Arrays:
        return {}

    def values(self, failing: Screened, graph: Graph, calls: Sequence[Arrays] = ()) -> str:
        return "values"


def smallest(rule: Callable[[Graph], Evidence | None], *operators: str) -> tuple[list[tuple[str, ...]], int]:
    """The operators of each part to report, and how many batches were asked about."""
    screening = RuledScreening(rule)
    whole = chain(*operators)
    evidence = rule(whole)
    found = SmallestParts(screening, time.monotonic() + 60).of(screened(whole, evidence))
    asked = [(repr(request.graph), request.sources) for batch in screening.batches for request in batch]
    assert len(asked) == len(set(asked)), "no program is asked about twice"
    return [part.request.graph.operators for part in found if part.request.graph], len(screening.batches)


def has(*operators: str) -> Callable[[Graph], Evidence | None]:
    return lambda graph: NOTHING if set(operators) <= set(graph.operators) else None


def test_every_operator_that_fails_alone_is_reported() -> None:
    def rule(graph: Graph) -> Evidence | None:
        return has("exp")(graph) or has("sin")(graph)

    assert smallest(rule, "abs", "exp", "neg", "sin") == ([("exp",), ("sin",)], 2)


def test_a_pair_is_found_among_the_pairs_and_more_than_three_by_removing() -> None:
    names = ("abs", "neg", "exp", "relu", "sin", "cos")
    assert smallest(has("exp", "relu"), *names) == ([("exp", "relu")], 3)
    assert smallest(has("abs", "exp", "relu", "cos"), *names)[0] == [("abs", "exp", "relu", "cos")]


def test_a_part_that_is_less_precise_does_not_stand_for_a_whole_that_is_wrong() -> None:
    def rule(graph: Graph) -> Evidence | None:
        return has("exp", "relu")(graph) or (IMPRECISE if "neg" in graph.operators else None)

    assert smallest(rule, "abs", "neg", "exp", "relu")[0] == [("exp", "relu")]


def test_removing_operators_does_not_end_at_a_part_that_is_merely_less_precise() -> None:
    def rule(graph: Graph) -> Evidence | None:
        return has("abs", "exp", "relu", "cos")(graph) or (IMPRECISE if "neg" in graph.operators else None)

    wrong, *less_precise = smallest(rule, "abs", "neg", "exp", "relu", "sin", "cos")[0]
    assert wrong == ("abs", "exp", "relu", "cos")
    assert all("neg" in part for part in less_precise) and less_precise


def test_a_hunt_whose_time_is_over_leaves_the_suspect_for_the_next() -> None:
    def over(graph: Graph) -> Evidence | None:
        if graph.operators == ("identity",):
            return None
        raise PoolExpired("the time is over")

    whole = screened(chain("abs", "exp", "neg"), NOTHING)
    with pytest.raises(PoolExpired):
        SmallestParts(RuledScreening(over), time.monotonic() + 60).of(whole)


def test_without_time_for_it_the_whole_is_reported() -> None:
    whole = screened(chain("abs", "exp", "neg"), NOTHING)
    assert SmallestParts(RuledScreening(has("exp")), time.monotonic() - 1).of(whole) == [whole]
