"""Transformed JAX programs: they compute what the transformation means, are cut with it, and are named after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from driftline.core.tensors import Array
from driftline.diagnose.reduce.cutting import SINGLE_MODES, keep
from driftline.diagnose.reduce.generated import read_generated, write_generated
from driftline.generate.emit_jax import emit_jax
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.generate.naming import pattern
from driftline.generate.transforms import TRANSFORMS, under

jax = pytest.importorskip("jax")

KIND = TensorType("float64", (3, 4))
GRAPH = Graph(
    (Leaf("input", KIND), Leaf("input", KIND)),
    (Node("mul", (0, 1), (KIND,)), Node("exp", (2,), (KIND,))),
    (3,),
)
X, Y = np.random.default_rng(0).uniform(-1, 1, (2, 3, 4))


def results(transform: str, *inputs: Array) -> list[Array]:
    scope: dict[str, Any] = {}
    exec(emit_jax(under(GRAPH, transform)), scope)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(scope["model"](*inputs))]


def plain(x: Array, y: Array) -> Array:
    return np.exp(x * y)


def test_a_batch_and_a_loop_are_two_samples() -> None:
    samples = np.stack([plain(X, Y), plain(np.flip(X), np.flip(Y))])
    np.testing.assert_allclose(results("vmap", X, Y)[0], samples)
    count, looped = results("scan", X, Y)
    assert count == 2
    np.testing.assert_allclose(looped, samples)
    np.testing.assert_allclose(results("vmap_last", X, Y)[0], np.stack([plain(X, Y), plain(np.flip(X), Y)]))


def test_a_branch_is_chosen_by_the_first_input() -> None:
    np.testing.assert_allclose(results("cond", X, Y)[0], plain(X, Y))
    np.testing.assert_allclose(results("cond", -np.abs(X), Y)[0], plain(np.flip(-np.abs(X)), np.flip(Y)))


def test_a_gradient_is_that_of_the_outputs_with_weights() -> None:
    value, by_x, by_y = results("grad", X, Y)
    weights = (np.arange(12) % 5 - 2).reshape(3, 4)
    np.testing.assert_allclose(value, plain(X, Y))
    np.testing.assert_allclose(by_x, weights * plain(X, Y) * Y)
    np.testing.assert_allclose(by_y, weights * plain(X, Y) * X)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_part_stays_transformed_and_is_named_so(name: str) -> None:
    whole = Graph.from_json(under(GRAPH, name).to_json())
    cut = keep(read_generated(whole), [1], SINGLE_MODES[0])
    assert cut is not None
    part = write_generated(cut[0], whole)
    assert part.operators == ("exp",) and part.transform == name
    expected = "with gradient" if name == "grad" else f"under {name.removesuffix('_last')}"
    assert pattern(part) == f"exp(float64) {expected}"


def test_integers_have_no_gradient() -> None:
    whole = TensorType("int64", (3,))
    assert under(Graph((Leaf("input", whole),), (Node("neg", (0,), (whole,)),), (1,)), "grad").transform == ""


def test_a_plain_graph_is_stored_as_before_there_were_transformations() -> None:
    assert "transform" not in GRAPH.to_json()
    assert Graph.from_json(GRAPH.to_json()) == GRAPH
