"""Plainer programs of the same nodes, and what a guess about them saves; nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from driftline.core.tensors import Array
from driftline.diagnose.reduce.elements import ElementForm, few_elements, oddest_elements
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph, ProgramLeaf, ProgramNode, ValueType
from driftline.diagnose.reduce.plainer import smaller_sizes
from driftline.diagnose.reduce.search import CandidateAnswer, Reply, Search
from driftline.diagnose.reduce.shrinking import GraphShrinker
from driftline.diagnose.reduce.values import Values, roughness


def one_node(values: Values, *arrays: Array) -> ProgramGraph:
    leaves = [
        ProgramLeaf(at, ValueType(array.dtype.name, array.shape), values.save([array]), roughness=roughness([array]))
        for at, array in enumerate(arrays)
    ]
    node = ProgramNode(
        "op", tuple(range(len(arrays))), (len(arrays),), {"bias": {"f": 0.5}, "size": {"i": arrays[0].shape[0]}}
    )
    return ProgramGraph(tuple(leaves), (node,), (len(arrays),))


def searched(
    graph: ProgramGraph, values: Values, fails: Callable[[ProgramGraph], bool], *, numbers_matter: bool, most: int = 1
) -> Search[ProgramGraph]:
    def ask(graphs: Sequence[ProgramGraph]) -> list[Reply]:
        assert len(graphs) <= most
        assert len({g.program for g in graphs}) == 1
        return [
            Reply(
                CandidateAnswer.SAME if fails(g) else CandidateAnswer.PASS,
                scouted=len(graphs) > 1,
                questions=int(g is graphs[0]),
            )
            for g in graphs
        ]

    def typed(g: ProgramGraph) -> Evaluated:
        return Evaluated(g, {v.number: v.type for v in g.leaves}, {v.number: v.data for v in g.leaves})

    search = Search(ask, graph, inputs=most)
    assert GraphShrinker(values, typed, numbers_matter=numbers_matter, most=most).shrink(search)
    return search


def test_the_element_that_stands_out_is_tried_alone(tmp_path: Path) -> None:
    values = Values(tmp_path)
    array = np.linspace(1, 2, 24, dtype=np.float32).reshape(4, 6)
    other = array.copy()
    array[2, 3] = np.inf
    graph = one_node(values, array, other)
    for form, shape in ((ElementForm.SCALAR, ()), (ElementForm.ONES, (1, 1)), (ElementForm.PAIR, (2,))):
        small = oddest_elements(values, graph, form)
        assert [leaf.type.shape for leaf in small.leaves] == [shape, shape]
        (odd,), (beside,) = (values.load(leaf.data) for leaf in small.leaves)
        assert odd.flat[0] == np.inf
        assert beside.flat[0] == other[2, 3]  # what belongs together stays together


def test_sizes_that_attributes_name_follow(tmp_path: Path) -> None:
    values = Values(tmp_path)
    graph = one_node(values, np.linspace(1, 2, 24, dtype=np.float32).reshape(4, 6))
    asked: list[object] = []

    def fails(g: ProgramGraph) -> bool:
        asked.append((g.leaves[0].type.shape, g.nodes[0].attributes.get("size")))
        return False

    searched(graph, values, fails, numbers_matter=True)
    assert ((1, 1), {"i": 1}) in asked and ((1, 1), {"i": 4}) in asked


def test_elements_of_other_shapes_are_those_that_meet(tmp_path: Path) -> None:
    values = Values(tmp_path)
    graph = one_node(values, 100 + np.arange(24, dtype=np.float32).reshape(4, 6), np.arange(6, dtype=np.float32))
    small = few_elements(values, graph, ElementForm.SCALAR, 24)
    numbers = [[values.load(leaf.data)[0].item() for leaf in g.leaves] for g in small]
    assert sum(element >= 100 and (element - 100) % 6 == met for element, met in numbers) >= 10


def test_a_sample_without_elements_stays_as_it_is(tmp_path: Path) -> None:
    values = Values(tmp_path)
    graph = one_node(values, np.ones(3, np.float32))
    samples = values.save([np.full(3, 2.5, np.float32), np.zeros(0, np.float32)])
    graph = replace(graph, leaves=(replace(graph.leaves[0], data=samples),))
    for small in few_elements(values, graph, ElementForm.SCALAR, 64):
        assert [array.size for array in values.load(small.leaves[0].data)] == [1, 0]


def test_one_bad_element_among_many_takes_few_questions(tmp_path: Path) -> None:
    values = Values(tmp_path)
    array = np.full((8, 16), 3, np.float32)
    array[5, 9] = 1e-40
    graph = one_node(values, array)

    def fails(g: ProgramGraph) -> bool:
        return bool((values.load(g.leaves[0].data)[0] == np.float32(1e-40)).any())

    found = searched(graph, values, fails, numbers_matter=True)
    assert found.best.size.elements == 1 and not found.best.nodes[0].attributes
    assert found.queries <= 8


def test_several_inputs_of_one_program_are_one_question(tmp_path: Path) -> None:
    """No element stands out, most do not fail, and of those that do the roundest version is found at once."""
    values = Values(tmp_path)
    array = np.linspace(-2, 2, 20, dtype=np.float32).reshape(4, 5)

    def fails(g: ProgramGraph) -> bool:
        return any(1.2 < number < 1.8 for number in values.load(g.leaves[0].data)[0].flat)

    alone = searched(one_node(values, array), values, fails, numbers_matter=True)
    together = searched(one_node(values, array), values, fails, numbers_matter=True, most=64)
    assert together.best.size <= alone.best.size and together.best.size.elements == 1
    assert round(values.load(together.best.leaves[0].data)[0].item(), 5) in (1.3, 1.4, 1.5, 1.6, 1.7)
    assert together.queries <= 4 < alone.queries


def test_two_elements_where_one_is_not_enough(tmp_path: Path) -> None:
    values = Values(tmp_path)
    graph = one_node(values, np.full((8, 16), 3000, np.int64), np.full((8, 16), 95, np.int64))

    def fails(g: ProgramGraph) -> bool:
        wide, narrow = (values.load(leaf.data)[0] for leaf in g.leaves) if len(g.leaves) == 2 else (np.zeros(1),) * 2
        return wide.size > 1 and bool((wide > narrow + 100).any())

    alone = searched(graph, values, fails, numbers_matter=True)
    found = searched(graph, values, fails, numbers_matter=True, most=64)
    assert next(step for step in found.steps if step.size.elements == 4).queries <= 5
    wide, narrow = (values.load(leaf.data)[0] for leaf in found.best.leaves)
    assert (wide.tolist(), narrow.tolist()) in (
        ([0, 3000], [0, 0]),
        ([0, 3000], 0),
        ([3000, 0], [0, 0]),
        ([3000, 0], 0),
    )
    assert found.best.size <= alone.best.size and found.queries < alone.queries


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
    search = Search(lambda graphs: [Reply(CandidateAnswer.NEITHER, "not valid", ran=False) for _ in graphs], graph)
    assert not search.fails(graph)
    assert search.queries == 0
