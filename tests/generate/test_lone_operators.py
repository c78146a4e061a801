"""Operators alone: each circumstance is what it says, and the programs run."""

from __future__ import annotations

import pytest
from framework_runs import runs

from driftline.generate.base import Blueprint, GeneratorRequest, NoProgram
from driftline.generate.blueprint import LANGUAGE
from driftline.generate.lone_operators import LAYOUTS, LoneOperators, circumstances, lone_programs
from driftline.generate.table import OPERATORS


def tried(form: str, arm: str) -> dict[str, Blueprint]:
    """The programs of an operator in its first dtype, by what is special about them."""
    found = {}
    wanted = circumstances(OPERATORS[arm], LANGUAGE[form])
    for number, one in enumerate(wanted):
        if one.dtype == wanted[0].dtype:
            found[one.special] = LoneOperators().make(GeneratorRequest(form, arm, number))
    return found


def test_each_circumstance_is_what_it_says() -> None:
    found = tried("torch", "softmax")
    assert set(found) == {"", "long axis", "longest axis", "gradient", *LAYOUTS}, "softmax takes no empty tensors"
    graphs = {special: made.graph for special, made in found.items() if made.graph}
    assert all(len(graph.nodes) == 1 for graph in graphs.values())
    assert max(max(leaf.type.shape) for leaf in graphs["long axis"].leaves) >= 63
    assert max(max(leaf.type.shape) for leaf in graphs["longest axis"].leaves) >= 1023
    assert found["gradient"].grad and not found[""].grad
    for layout in LAYOUTS:
        assert layout in [leaf.layout for leaf in graphs[layout].leaves]
    assert {leaf.layout for leaf in graphs[""].leaves} == {"contiguous"}
    empty = tried("onnx", "add")["empty"].graph
    assert empty and 0 in empty.leaves[0].type.shape


def test_what_computes_along_an_axis_has_the_longest_and_none_first() -> None:
    def specials(arm: str) -> list[str]:
        return [one.special for one in circumstances(OPERATORS[arm], "torch")[:3]]

    for arm in ("cumprod", "sum"):
        assert specials(arm) == ["", "longest axis", "empty"]
    for arm in ("softmax", "mean", "sort"):  # these take no empty tensors
        assert specials(arm)[:2] == ["", "longest axis"]
    others = {tuple(specials(arm)) for arm in ("relu", "exp", "add", "flip", "concat", "matmul")}
    assert len(others) > 2, "a short hunt sees all circumstances, each of some operators"


def test_all_dtypes_are_tried_and_then_there_is_no_more() -> None:
    form = OPERATORS["relu"].torch
    assert form
    assert {one.dtype for one in circumstances(OPERATORS["relu"], "torch")} == set(form.dtypes)
    last = lone_programs("torch")["relu"]
    assert LoneOperators().make(GeneratorRequest("torch", "relu", last - 1)).operators == ("relu",)
    with pytest.raises(NoProgram, match="in every way"):
        LoneOperators().make(GeneratorRequest("torch", "relu", last))
    with pytest.raises(NoProgram, match="avoided"):
        LoneOperators().make(GeneratorRequest("torch", "relu", 0, avoid=frozenset({"relu float32"})))


@pytest.mark.parametrize("form", ["torch", "onnx"])
@pytest.mark.filterwarnings("ignore")
def test_programs_run(form: str) -> None:
    wrong, count = [], 0
    for arm in LoneOperators().arms(form)[::9]:
        for number, one in enumerate(circumstances(OPERATORS[arm], LANGUAGE[form])[:7]):
            try:
                made = LoneOperators().make(GeneratorRequest(form, arm, number))
            except NoProgram:
                continue
            count += 1
            if one.special != "empty" and (words := runs(made, "s")):  # eager refuses some without elements
                wrong.append(f"{arm} {one}: {words}")
    assert count > 100 and not wrong
