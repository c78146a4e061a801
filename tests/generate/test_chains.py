"""Chains: every pair of common operators has its turn, and the programs run."""

from __future__ import annotations

import itertools

import pytest
from framework_runs import runs

from driftline.generate.base import GeneratorRequest
from driftline.generate.blueprint import LANGUAGE
from driftline.generate.chains import CHAINS, COMMON, DEEPEST, Chains, chain_of, whole_round
from driftline.generate.graph import Graph
from driftline.generate.table import OPERATORS


def pairs(graph: Graph) -> set[tuple[str, str]]:
    """Operators of which one reads the result of the other."""
    makers = {number: node.op for node, span in zip(graph.nodes, graph.produced(), strict=True) for number in span}
    return {(makers[number], node.op) for node in graph.nodes for number in node.inputs if number in makers}


@pytest.mark.parametrize("form", sorted(LANGUAGE))
def test_a_round_asks_for_every_pair(form: str) -> None:
    language = LANGUAGE[form]
    known = [name for name in COMMON if OPERATORS[name].form(language)]
    chains = [chain_of(language, 3, number) for number in range(whole_round(language))]
    asked = {pair for chain in chains for pair in itertools.pairwise(chain)}
    assert asked == set(itertools.product(known, known))
    assert chain_of(language, 3, whole_round(language)) != chains[0]  # the next round goes in another order


@pytest.mark.parametrize("form", ["torch", "onnx"])
def test_most_pairs_are_made(form: str) -> None:
    made: set[tuple[str, str]] = set()
    for number in range(whole_round(LANGUAGE[form])):
        graph = Chains().make(GeneratorRequest(form, CHAINS, number)).graph
        assert graph
        made |= pairs(graph)
    assert len(made) > 0.85 * len(COMMON) ** 2  # argmax gives no number that an exponential takes
    assert {("neg", "relu"), ("relu", "clamp"), ("mul_scalar", "softmax"), ("transpose", "mm"), ("mm", "add")} <= made


@pytest.mark.parametrize("form", ["torch", "onnx"])
@pytest.mark.filterwarnings("ignore")
def test_programs_run_and_stay_shallow(form: str) -> None:
    for number in range(150):
        made = Chains().make(GeneratorRequest(form, CHAINS, number))
        assert made == Chains().make(GeneratorRequest(form, CHAINS, number))
        assert not runs(made, "s", gradients=made.grad), made.content
        assert made.graph
        depth: dict[int, int] = {}
        for node, span in zip(made.graph.nodes, made.graph.produced(), strict=True):
            depth |= dict.fromkeys(span, 1 + depth.get(node.inputs[0], 0))
        assert max(depth.values()) <= DEEPEST


def test_what_is_to_be_avoided_is_not_written() -> None:
    avoid = frozenset(f"relu {dtype}" for dtype in ("float32", "float64", "float16", "bfloat16", "int32", "int64"))
    for number in range(100):
        graph = Chains().make(GeneratorRequest("onnx", CHAINS, number, avoid=avoid)).graph
        assert graph
        assert avoid.isdisjoint(f"{operator} {dtype}" for operator, dtype in graph.coverage)
