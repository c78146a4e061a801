"""Generated programs are cut by the reducer: parts are valid programs, and no part is asked about twice."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import pytest

from driftline.diagnose.reduce.cutting import Mode, keep
from driftline.diagnose.reduce.generated import in_plainer_dtypes, read_generated, write_generated
from driftline.diagnose.reduce.graph import ProgramGraph
from driftline.diagnose.reduce.search import CandidateAnswer, Reply, Search
from driftline.diagnose.reduce.small_parts import CLOSED, OPEN, fewer_operators, parts_of, small_parts
from driftline.generate.base import GeneratorRequest, NoProgram
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.generate.random_graph import RandomGraph, random_graph
from driftline.generate.table import OPERATORS

ROW = TensorType("float32", (4,))
CHAIN = Graph(
    (Leaf("input", ROW), Leaf("parameter", ROW, seed=3)),
    (Node("add", (0, 1), (ROW,)), Node("relu", (2,), (ROW,)), Node("exp", (3,), (ROW,))),
    (4,),
)
FORK = Graph(CHAIN.leaves, (*CHAIN.nodes, Node("neg", (2,), (ROW,))), (4, 5))


def cut(whole: Graph, nodes: Collection[int], mode: Mode = OPEN) -> tuple[Graph, list[int]]:
    """The part as a generated program, and which values of the whole its leaves hold."""
    made = keep(read_generated(whole), nodes, mode)
    assert made
    return write_generated(made[0], whole), [leaf.number for leaf in made[0].leaves]


def test_a_part_reads_from_outside_what_it_does_not_make() -> None:
    part, sources = cut(CHAIN, [1, 2])
    assert part.operators == ("relu", "exp")
    assert sources == [2]
    assert part.leaves == (Leaf("input", ROW),)
    assert part.outputs == (2,)  # the result of exp; nothing outside reads that of relu


def test_a_part_may_hide_what_its_own_nodes_read() -> None:
    """A compiler fuses only what nothing else reads."""
    assert cut(CHAIN, [0, 1])[0].outputs == cut(CHAIN, [0, 1], CLOSED)[0].outputs == (3,)
    assert cut(FORK, [0, 1])[0].outputs == (2, 3)  # neg reads the result of add
    assert cut(FORK, [0, 1], CLOSED)[0].outputs == (3,)


def test_a_result_that_the_whole_returns_can_be_hidden_too() -> None:
    returned = replace(CHAIN, outputs=(3, 4))
    assert cut(returned, [1, 2])[0].outputs == (1, 2)
    assert cut(returned, [1, 2], CLOSED)[0].outputs == (2,)


def test_a_part_keeps_its_parameters() -> None:
    assert cut(CHAIN, [0])[0].leaves[1] == Leaf("parameter", ROW, seed=3)


def test_a_view_of_another_input_stays_one_where_both_are_read() -> None:
    alias = Leaf("input", ROW, layout="alias:0")
    whole = Graph((Leaf("input", ROW), alias), (Node("add", (0, 1), (ROW,)), Node("exp", (1,), (ROW,))), (2, 3))
    assert cut(whole, [0])[0].leaves[1].layout == "alias:0"
    assert cut(whole, [1])[0].leaves[0].layout == "contiguous"


def test_small_parts_are_connected() -> None:
    base = read_generated(CHAIN)
    assert [part.operators for part in parts_of(base, 1)] == [["add"], ["relu"], ["exp"]]
    assert [part.operators for part in parts_of(base, 2)] == [["add", "relu"], ["relu", "exp"]]
    assert [part.operators for part in parts_of(base, 3)] == [["add", "relu", "exp"]]


def test_plainer_dtypes_are_offered() -> None:
    double = Graph(
        (Leaf("input", TensorType("float64", (2,))),), (Node("exp", (0,), (TensorType("float64", (2,)),)),), (1,)
    )
    assert [(old, new) for _, old, new in in_plainer_dtypes(double)] == [("float64", "float32")]
    assert in_plainer_dtypes(CHAIN) == []


def test_operators_go_until_none_can_with_each_program_asked_about_once() -> None:
    """Four operators are needed, and their results must be hidden: every batch holds only what is new."""
    names = ["abs", "neg", "exp", "relu", "sin", "cos", "tanh"]
    nodes = tuple(Node(name, (at,), (ROW,)) for at, name in enumerate(names))
    whole = Graph((Leaf("input", ROW),), nodes, tuple(range(1, 8)))
    needed = {"neg", "exp", "relu", "sin"}
    batches: list[list[str]] = []

    def ask(parts: Sequence[ProgramGraph]) -> list[Reply]:
        batches.append([part.key for part in parts])
        failing = [needed <= set(part.operators) and len(part.outputs) <= 3 for part in parts]
        return [Reply(CandidateAnswer.SAME if fails else CandidateAnswer.PASS) for fails in failing]

    base = read_generated(whole)
    search = Search(ask, base.graph, batch=48, least=48)
    for parts in small_parts(base):
        assert all(reply.answer is CandidateAnswer.PASS for reply in search.replies(parts))
    assert len(batches) == 5
    fewer_operators(search, lambda graph: replace(base, graph=graph), least=2)
    assert set(search.best.operators) == needed
    asked = [key for batch in batches for key in batch]
    assert len(asked) == len(set(asked))


def _random_graphs(form: str) -> Iterator[Graph]:
    arms = RandomGraph().arms(form)
    for number in range(120):
        try:
            yield random_graph(GeneratorRequest(form, arms[(number * 7) % len(arms)], 30 + number))
        except NoProgram:
            continue


@pytest.mark.parametrize("form", ["torch", "onnx"])
def test_every_part_of_a_random_graph_has_the_types_it_says(form: str) -> None:
    seen = 0
    for graph in _random_graphs(form):
        base = read_generated(graph)
        assert write_generated(base.graph, graph) == graph
        for size in (1, 2):
            for mode in (OPEN, CLOSED):
                for part in parts_of(base, min(size, len(graph.nodes)), mode):
                    written = write_generated(part, graph)
                    types = written.types()
                    for node in written.nodes:
                        given = [types[number] for number in node.inputs]
                        assert tuple(OPERATORS[node.op].infer(given, node.attributes)) == node.outputs
                    seen += 1
    assert seen > 600
