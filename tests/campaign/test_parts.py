"""Cutting graphs: parts are valid programs, and a pattern says what they compute without shapes and numbers."""

from __future__ import annotations

import pytest

from driftline.generate.base import GeneratorRequest, NoProgram
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.generate.parts import cut, named, pattern, plainer, windows
from driftline.generate.random_graph import RandomGraph, random_graph
from driftline.generate.table import OPERATORS

ROW = TensorType("float32", (4,))
CHAIN = Graph(
    (Leaf("input", ROW), Leaf("parameter", ROW, seed=3)),
    (Node("add", (0, 1), (ROW,)), Node("relu", (2,), (ROW,)), Node("exp", (3,), (ROW,))),
    (4,),
)


def test_a_part_reads_from_outside_what_it_does_not_make() -> None:
    part = cut(CHAIN, [1, 2])
    assert part.graph.operators == ("relu", "exp")
    assert part.sources == (2,)
    assert part.graph.leaves == (Leaf("input", ROW),)
    assert part.graph.outputs == (2,)  # what exp makes; nobody outside reads what relu makes


def test_a_part_may_hide_what_its_own_nodes_read() -> None:
    """A compiler fuses what nobody else looks at."""
    assert cut(CHAIN, [0, 1]).graph.outputs == cut(CHAIN, [0, 1], ends_only=True).graph.outputs == (3,)
    fork = Graph(CHAIN.leaves, (*CHAIN.nodes, Node("neg", (2,), (ROW,))), (4, 5))
    assert cut(fork, [0, 1]).graph.outputs == (2, 3)  # neg reads what add makes
    assert cut(fork, [0, 1], ends_only=True).graph.outputs == (3,)


def test_a_part_keeps_its_parameters() -> None:
    assert cut(CHAIN, [0]).graph.leaves[1].kind == "parameter"


def test_windows_are_connected() -> None:
    assert [part.nodes for part in windows(CHAIN, 1)] == [(0,), (1,), (2,)]
    assert [part.nodes for part in windows(CHAIN, 2)] == [(0, 1), (1, 2)]
    assert [part.nodes for part in windows(CHAIN, 3)] == [(0, 1, 2)]


def test_a_pattern_has_operators_and_dtypes_alone() -> None:
    assert pattern(CHAIN) == "exp(relu(add(float)))"
    assert pattern(cut(CHAIN, [1]).graph) == "relu(float)"


def test_what_only_reshapes_is_not_in_a_pattern_unless_there_is_nothing_else() -> None:
    reshaping = (Node("contiguous", (0,), (ROW,)), Node("exp", (1,), (ROW,)), Node("reshape", (2,), (ROW,)))
    assert pattern(Graph((Leaf("input", ROW),), reshaping, (3,))) == "exp(float)"
    assert pattern(Graph((Leaf("input", ROW),), reshaping[:1], (1,))) == "contiguous(float)"


def test_an_operator_has_one_name_wherever_it_comes_from() -> None:
    assert named([("Erf", "float32")]) == "erf(float)"
    assert named([("nn.functional.group_norm", "float64")]) == "group_norm(float64)"
    assert named([("Gather", "int64"), ("Det", "float32")]) == "Gather(int64) > Det(float)"


def test_plainer_dtypes_are_offered() -> None:
    double = Graph(
        (Leaf("input", TensorType("float64", (2,))),), (Node("exp", (0,), (TensorType("float64", (2,)),)),), (1,)
    )
    assert [(old, new) for _, old, new in plainer(double)] == [("float64", "float32")]
    assert plainer(CHAIN) == []


@pytest.mark.parametrize("form", ["torch", "onnx"])
def test_every_part_of_a_random_graph_has_the_types_it_says(form: str) -> None:
    arms = RandomGraph().arms(form)
    seen = 0
    for number in range(120):
        try:
            graph = random_graph(GeneratorRequest(form, arms[(number * 7) % len(arms)], 30 + number))
        except NoProgram:
            continue
        for size in (1, 2):
            for part in windows(graph, min(size, len(graph.nodes))):
                types = part.graph.types()
                for node in part.graph.nodes:
                    given = [types[number] for number in node.inputs]
                    assert tuple(OPERATORS[node.op].infer(given, node.attributes)) == node.outputs
                seen += 1
    assert seen > 300
