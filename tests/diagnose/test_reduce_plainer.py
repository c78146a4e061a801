"""Plainer programs of the same nodes, and what a guess about them saves; nothing is run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from driftline.core.tensors import Array
from driftline.diagnose.reduce.graph import Evaluated, Graph, Leaf, Node, TensorType
from driftline.diagnose.reduce.plainer import Plainer, smaller_sizes
from driftline.diagnose.reduce.search import Answer, Reply, Search
from driftline.diagnose.reduce.shrinking import GraphShrinker
from driftline.diagnose.reduce.values import Values, roughness


def one_node(values: Values, *arrays: Array) -> Graph:
    leaves = [
        Leaf(at, TensorType(array.dtype.name, array.shape), values.save([array]), roughness=roughness([array]))
        for at, array in enumerate(arrays)
    ]
    node = Node(
        "op", tuple(range(len(arrays))), (len(arrays),), {"bias": {"f": 0.5}, "size": {"i": arrays[0].shape[0]}}
    )
    return Graph(tuple(leaves), (node,), (len(arrays),))


def searched(graph: Graph, values: Values, fails: object, *, numbers_matter: bool) -> Search[Graph]:
    def ask(graphs: Sequence[Graph]) -> list[Reply]:
        return [Reply(Answer.SAME if fails(g) else Answer.PASS) for g in graphs]  # type: ignore[operator]

    def typed(g: Graph) -> Evaluated:
        return Evaluated(g, {v.number: v.type for v in g.leaves}, {v.number: v.data for v in g.leaves})

    search = Search(ask, graph)
    assert GraphShrinker(values, typed, numbers_matter=numbers_matter).shrink(search)
    return search


def test_the_element_that_stands_out_is_tried_alone(tmp_path: Path) -> None:
    values = Values(tmp_path)
    array = np.linspace(1, 2, 24, dtype=np.float32).reshape(4, 6)
    other = array.copy()
    array[2, 3] = np.inf
    graph = one_node(values, array, other)
    scalars, told, plain, *_ = Plainer(values, numbers_matter=True).shapes(graph)
    for small, shape in ((scalars, ()), (told, (1, 1)), (plain, (1, 1))):
        assert [leaf.type.shape for leaf in small.leaves] == [shape, shape]
        (odd,), (beside,) = (values.load(leaf.data) for leaf in small.leaves)
        assert odd.item() == np.inf
        assert beside.item() == other[2, 3]  # what belongs together stays together
    assert told.nodes[0].attributes["size"] == {"i": 1} and plain.nodes[0].attributes["size"] == {"i": 4}


def test_one_bad_element_among_many_takes_few_questions(tmp_path: Path) -> None:
    values = Values(tmp_path)
    array = np.full((8, 16), 3, np.float32)
    array[5, 9] = 1e-40
    graph = one_node(values, array)

    def fails(g: Graph) -> bool:
        return bool((values.load(g.leaves[0].data)[0] == np.float32(1e-40)).any())

    found = searched(graph, values, fails, numbers_matter=True)
    assert found.best.size.elements == 1 and not found.best.nodes[0].attributes
    assert found.queries <= 8


def test_where_numbers_do_not_matter_everything_becomes_plain_at_once(tmp_path: Path) -> None:
    values = Values(tmp_path)
    graph = one_node(values, np.full((8, 16), 3.7, np.float32), np.full((8, 16), 1.3, np.float32))
    found = searched(graph, values, lambda g: len(g.leaves) == 2, numbers_matter=False)
    assert (found.best.size.elements, found.best.size.values, found.best.size.attributes) == (2, 0, 2)
    assert found.queries <= 4


def test_a_threshold_of_a_size_is_found_in_ever_smaller_steps(tmp_path: Path) -> None:
    values = Values(tmp_path)
    graph = one_node(values, np.zeros((1000,), np.float32))
    found = searched(graph, values, lambda g: g.size.elements > 700, numbers_matter=True)
    assert found.best.size.elements == 701
    assert found.queries <= 150  # one size after the other would be 299, each with and without the attribute
    assert smaller_sizes(2) == [1] and smaller_sizes(1) == []


def test_what_is_no_program_is_not_counted_as_a_question(tmp_path: Path) -> None:
    values = Values(tmp_path)
    graph = one_node(values, np.zeros((3,), np.float32))
    search = Search(lambda graphs: [Reply(Answer.NEITHER, "not valid", ran=False) for _ in graphs], graph)
    assert not search.fails(graph)
    assert search.queries == 0
