"""Blocks of models: valid in every language that has their operators, and the same for the same request."""

from __future__ import annotations

import pytest
from framework_runs import runs

from driftline.generate.base import Blueprint, GeneratorRequest, NoProgram
from driftline.generate.layers.generator import Layers
from driftline.generate.layers.graph_sketch import BLOCKS


def programs(form: str, each: int) -> list[Blueprint]:
    made = []
    for arm in Layers().arms(form):
        for number in range(each):
            try:
                made.append(Layers().make(GeneratorRequest(form, arm, number)))
            except NoProgram:  # not in this dtype
                assert number
    return made


@pytest.mark.parametrize("form", ["torch", "onnx"])
@pytest.mark.filterwarnings("ignore")
def test_programs_run(form: str) -> None:
    made = programs(form, 3)
    assert len(made) > 2.5 * len(Layers().arms(form))
    assert not [words for one in made if (words := runs(one, "s"))]


def test_a_language_has_the_blocks_whose_operators_it_has() -> None:
    assert set(Layers().arms("torch")) == set(BLOCKS)
    assert "written_through_a_view" not in Layers().arms("onnx")
    assert len(Layers().arms("jax")) > 15


def test_equal_requests_give_equal_programs_that_vary() -> None:
    first, again = programs("jax", 4), programs("jax", 4)
    assert [one.content for one in first] == [one.content for one in again]
    assert len({one.content for one in first}) == len(first)
    torch = programs("torch", 8)
    assert any(one.grad for one in torch) and any(one.sizes for one in torch)
    assert any(plan.spec.shape and max(plan.spec.shape) > 256 for one in torch for plan in one.inputs)
    assert len({plan.spec.dtype for one in torch for plan in one.inputs}) >= 6


def test_what_a_compiler_does_not_support_is_left_out() -> None:
    plain = Layers().make(GeneratorRequest("onnx", "softmax_by_hand", 0))
    operator, dtype = plain.coverage[0]
    with pytest.raises(NoProgram, match=f"softmax_by_hand has {operator} of {dtype}"):
        Layers().make(GeneratorRequest("onnx", "softmax_by_hand", 0, avoid=frozenset({f"{operator} {dtype}"})))
