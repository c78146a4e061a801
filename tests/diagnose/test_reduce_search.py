"""The search by itself, on graphs that are never run: how many questions, which nodes, what is remembered."""

from __future__ import annotations

import random

import pytest

from driftline.core.evidence import Evidence
from driftline.diagnose.reduce.cutting import MODES, DataFlow, Mode, Returned, keep
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph, ProgramLeaf, ProgramNode, ValueType
from driftline.diagnose.reduce.nodes import needed, reduce_graph
from driftline.diagnose.reduce.search import BudgetEnded, CandidateAnswer, Reply, Search
from driftline.diagnose.reduce.signature import Signature

FLOAT = ValueType("float32", (2, 3))


def raised(stage: str, kind: str, text: str) -> Signature:
    exception, _, said = text.partition(": ")
    return Signature.of(stage, kind, Evidence(exception=exception, said=said))


def chain_of(kinds: list[str]) -> ProgramGraph:
    nodes = tuple(ProgramNode(kind, (at,), (at + 1,)) for at, kind in enumerate(kinds))
    return ProgramGraph((ProgramLeaf(0, FLOAT, "x"),), nodes, (len(kinds),))


def typed(graph: ProgramGraph) -> Evaluated:
    numbers = [leaf.number for leaf in graph.leaves] + [n for node in graph.nodes for n in node.outputs]
    return Evaluated(graph, dict.fromkeys(numbers, FLOAT), {n: f"v{n}" for n in numbers})


@pytest.mark.parametrize("wanted", [1, 2, 3, 6])
def test_few_questions_where_few_nodes_matter(wanted: int) -> None:
    for seed in range(5):
        places = sorted(random.Random(seed).sample(range(200), wanted))
        graph = chain_of([f"bad{places.index(at)}" if at in places else "sin" for at in range(200)])
        marks = {f"bad{n}" for n in range(wanted)}
        found = reduce_graph(graph, lambda g, marks=marks: marks <= set(g.operators), typed)
        assert sorted(found.best.operators) == sorted(marks)
        assert found.queries <= 4 * wanted  # they are rare: the first guess is right, and the rest is its proof


def test_nodes_of_one_kind_are_found_by_their_place() -> None:
    nodes = [ProgramNode("add", (at,), (at + 1,), {"value": {"i": at}}) for at in range(200)]
    graph = ProgramGraph((ProgramLeaf(0, FLOAT, "x"),), tuple(nodes), (200,))
    wanted = {31, 144}

    def fails(g: ProgramGraph) -> bool:
        return wanted <= {node.attributes["value"]["i"] for node in g.nodes}

    found = reduce_graph(graph, fails, typed)
    assert len(found.best.nodes) == 2
    assert found.queries <= 30


def test_what_is_rare_may_be_an_attribute() -> None:
    nodes = [
        ProgramNode("add", (at,), (at + 1,), {"value": {"f": 7.0 if at in (31, 144) else 1.0}}) for at in range(200)
    ]
    graph = ProgramGraph((ProgramLeaf(0, FLOAT, "x"),), tuple(nodes), (200,))
    found = reduce_graph(graph, lambda g: [n.attributes["value"]["f"] for n in g.nodes].count(7.0) == 2, typed)
    assert len(found.best.nodes) == 2
    assert found.queries <= 4


def test_a_wrong_guess_costs_one_question_and_hides_nothing() -> None:
    """The rare operator has nothing to do with it; and where nothing fails, the start is all that is left."""
    kinds = ["sin"] * 40 + ["rare"] + ["cos"] * 40
    found = reduce_graph(chain_of(kinds), lambda g: g.operators.count("cos") >= 30, typed)
    assert found.best.operators == ["cos"] * 30
    start = chain_of(kinds)
    found = reduce_graph(start, lambda g: False, typed)
    assert (found.best, found.queries) == (start, 2)


def test_everything_needed_takes_about_as_many_questions_as_nodes() -> None:
    elements = list(range(40))
    asked = 0

    def fails(chosen: object) -> set[int] | None:
        nonlocal asked
        asked += 1
        return set(elements) if set(chosen) == set(elements) else None  # type: ignore[call-overload]

    assert needed(elements, fails) == elements
    assert asked < 100


def test_bypass_keeps_the_flow_and_cut_keeps_the_values() -> None:
    base = typed(chain_of(["a", "b", "c", "d"]))
    cut, bypass, join = (
        keep(base, {1, 3}, Mode(flow, Returned.UNREAD)) for flow in (DataFlow.CUT, DataFlow.BYPASS, DataFlow.JOIN)
    )
    assert cut and bypass and join
    assert [leaf.data for leaf in cut[0].leaves] == ["v1", "v3"] and len(cut[0].outputs) == 2
    assert [leaf.data for leaf in bypass[0].leaves] == ["x"] and bypass[0].nodes[1].inputs == (2,)
    assert [leaf.data for leaf in join[0].leaves] == ["v1"] and join[0].nodes[1].inputs == (2,)


def test_joining_finds_a_node_that_stays_on_any_way() -> None:
    nodes = (
        ProgramNode("a", (1,), (2,)),
        ProgramNode("add", (0, 2), (3,)),
        ProgramNode("add", (0, 3), (4,)),
        ProgramNode("b", (4,), (5,)),
    )
    graph = ProgramGraph((ProgramLeaf(0, FLOAT, "x"), ProgramLeaf(1, FLOAT, "y")), nodes, (5,))
    joined = keep(typed(graph), {0, 3}, MODES[0])
    assert joined and joined[0].nodes[1].inputs == (2,) and len(joined[0].leaves) == 1


def test_a_value_that_is_no_tensor_keeps_its_maker() -> None:
    nodes = (
        ProgramNode("split", (0,), (1,)),
        ProgramNode("getitem", (1,), (2,), free=True),
        ProgramNode("sin", (2,), (3,)),
    )
    graph = ProgramGraph((ProgramLeaf(0, FLOAT, "x"),), nodes, (3,))
    base = Evaluated(graph, {0: FLOAT, 1: None, 2: FLOAT, 3: FLOAT}, {0: "x", 2: "v2", 3: "v3"})
    made = keep(base, {1, 2}, MODES[0])
    assert made and [node.op for node in made[0].nodes] == ["split", "getitem", "sin"]


def test_the_memo_answers_instead_of_the_predicate() -> None:
    memo: dict[str, Reply] = {}
    asked: list[str] = []

    def run() -> Search[ProgramGraph]:
        def ask(graphs: object) -> list[Reply]:
            asked.extend(graph.key for graph in graphs)  # type: ignore[attr-defined]
            return [Reply(CandidateAnswer.SAME if "bad" in g.operators else CandidateAnswer.PASS) for g in graphs]  # type: ignore[attr-defined]

        search = Search(ask, chain_of(["sin"] * 30 + ["bad"] + ["sin"] * 30), memo=memo)
        from driftline.diagnose.reduce.nodes import fewer_nodes

        fewer_nodes(search, typed)
        return search

    first = run()
    count = len(asked)
    second = run()
    assert len(asked) == count == len(set(asked))
    assert second.best.key == first.best.key
    assert second.queries == 0


def test_the_budget_ends_a_search_with_what_it_has() -> None:
    search = Search(lambda graphs: [Reply(CandidateAnswer.SAME)] * len(graphs), chain_of(["a", "b"]), deadline=0.0)
    with pytest.raises(BudgetEnded):
        search.fails(chain_of(["a"]))
    assert search.best.operators == ["a", "b"]


def test_other_failures_are_collected_by_their_signature() -> None:
    def ask(graphs: object) -> list[Reply]:
        return [Reply(CandidateAnswer.OTHER, "", f"RUN / error / {len(g.nodes) % 2}") for g in graphs]  # type: ignore[attr-defined]

    search = Search(ask, chain_of(["a"] * 6))
    for length in (5, 4, 3, 2):
        assert not search.fails(chain_of(["a"] * length))
    assert sorted(len(graph.nodes) for graph in search.others.values()) == [2, 3]


def test_what_counts_as_the_same_failure() -> None:
    wrong, drift = Signature("RUN", "wrong-value"), Signature("RUN", "bias")
    assert drift.covers(wrong) and not wrong.covers(drift)
    one = raised("COMPILE", "error", "Fail: node 12 of type float64 at /tmp/abc/model")
    same = raised("COMPILE", "error", "Fail: node 7 of type float32 at /home/other/model")
    assert one.covers(same)
    assert not one.covers(raised("COMPILE", "error", "Fail: another thing"))
    assert not one.covers(raised("RUN", "error", "Fail: node 7 of type float32 at /home/other/model"))


def test_a_start_that_was_lost_once_is_asked_about_again() -> None:
    """A worker that the system killed says nothing about the program; neither does such an answer in the memo."""
    start = chain_of(["sin", "bad"])
    lost = Reply(CandidateAnswer.NEITHER, "killed by SIGKILL", ran=False)
    answers = [lost, Reply(CandidateAnswer.SAME, "wrong")]
    search = Search(lambda graphs: [answers.pop(0)], start)
    assert search.begins() and not answers
    kept = {start.key: lost}
    resumed = Search(lambda graphs: [Reply(CandidateAnswer.SAME, "wrong")], start, memo=kept)
    assert resumed.begins() and kept[start.key].answer is CandidateAnswer.SAME
    passing = Search(lambda graphs: [Reply(CandidateAnswer.PASS)], start)
    assert not passing.begins() and passing.queries == 2
