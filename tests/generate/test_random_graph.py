"""Random graphs: valid nearly always, the same for the same request, and the same after a trip through JSON."""

from __future__ import annotations

import pytest
from framework_runs import runs

from driftline.generate.base import Blueprint, GeneratorRequest, NoProgram
from driftline.generate.graph import Graph
from driftline.generate.mutate import Mutate
from driftline.generate.random_graph import LONGEST_OF_LARGE, MOST_OF_LARGE, RandomGraph
from driftline.generate.table import OPERATORS


def programs(form: str, count: int) -> list[Blueprint]:
    generator = RandomGraph()
    arms = generator.arms(form)
    made = []
    for number in range(count):
        try:
            made.append(generator.make(GeneratorRequest(form, arms[(number * 13) % len(arms)], 20 + number)))
        except NoProgram:
            continue
    return made


def test_the_table_is_large() -> None:
    assert len(OPERATORS) >= 130


@pytest.mark.parametrize("form", ["torch", "onnx"])
@pytest.mark.filterwarnings("ignore")
def test_programs_run(form: str) -> None:
    made = programs(form, 500)
    wrong = [words for number, one in enumerate(made) if (words := runs(one, str(number)))]
    assert len(made) > 480
    assert len(wrong) <= len(made) // 100, wrong


@pytest.mark.parametrize("form", ["torch", "onnx", "jax"])
def test_equal_requests_give_equal_programs(form: str) -> None:
    assert [one.content for one in programs(form, 60)] == [one.content for one in programs(form, 60)]


@pytest.mark.parametrize("form", ["torch", "onnx", "jax"])
def test_some_programs_have_a_long_axis_within_bounds(form: str) -> None:
    graphs = [one.graph for one in programs(form, 160) if one.graph]
    large = [graph for graph in graphs if max(graph.leaves[0].type.shape, default=0) > 64]
    assert len(graphs) // 20 < len(large) < len(graphs) // 4
    assert max(t.size for graph in large for node in graph.nodes for t in node.outputs) <= MOST_OF_LARGE
    assert all(len(graph.nodes) <= LONGEST_OF_LARGE for graph in large)


def test_json_keeps_a_graph() -> None:
    for made in programs("torch", 200):
        assert made.graph
        again = Graph.from_json(made.graph.to_json())
        assert repr(again) == repr(made.graph)


def test_programs_differ_in_kind() -> None:
    """What the issue of shapes, layouts and ways of use asks for does occur."""
    graphs = [made.graph for made in programs("torch", 1500) if made.graph]
    leaves = [leaf for graph in graphs for leaf in graph.leaves]
    layouts = {leaf.layout.partition(":")[0] for leaf in leaves}
    assert layouts == {"contiguous", "transposed", "strided", "expanded", "overlapping", "alias"}
    assert {leaf.kind for leaf in leaves} == {"input", "parameter", "constant"}
    assert {(), 0, 1} <= {leaf.type.shape if not leaf.type.shape else min(leaf.type.shape) for leaf in leaves}
    assert len({leaf.type.dtype for leaf in leaves}) >= 12
    assert any(graph.grad for graph in graphs)
    assert any(graph.varying for graph in graphs)
    assert any(number < len(graph.leaves) for graph in graphs for number in graph.outputs)
    assert any(OPERATORS[node.op].inplace for graph in graphs for node in graph.nodes)
    assert any(OPERATORS[node.op].view for graph in graphs for node in graph.nodes)


def test_what_is_avoided_does_not_occur() -> None:
    avoid = frozenset(f"{name} float32" for name in OPERATORS if name != "exp")
    generator = RandomGraph()
    for number in range(20, 60):
        graph = generator.make(GeneratorRequest("torch", "exp", number, avoid=avoid)).graph
        assert graph
        types = graph.types()
        single = [node.op for node in graph.nodes if types[node.inputs[0]].dtype == "float32"]
        assert set(single) <= {"exp"}


@pytest.mark.parametrize("form", ["torch", "onnx"])
@pytest.mark.filterwarnings("ignore")
def test_changed_programs_run(form: str) -> None:
    bases = [made.graph for made in programs(form, 60)]
    made, wrong = 0, []
    for arm in Mutate().arms(form):
        for number, base in enumerate(bases):
            try:
                changed = Mutate().make(GeneratorRequest(form, arm, number, base=base))
            except NoProgram:
                continue
            made += 1
            assert changed.graph != base
            if words := runs(changed, f"{arm}/{number}"):
                wrong.append(f"{arm}: {words}")
    assert made > 300
    assert len(wrong) <= made // 50, wrong


def test_running_statistics_ask_for_no_gradient() -> None:
    """torch refuses a running mean that is trainable, unless gradients are switched off altogether."""
    generator, frozen = RandomGraph(), 0
    for seed in range(60):
        made = generator.make(GeneratorRequest("torch", "batch_norm", seed))
        assert "running_mean" not in runs(made, str(seed), gradients=True)
        frozen += "requires_grad=False" in str(made.content)
    assert frozen > 5
