"""What an ONNX graph says about the integers that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from driftline.programs.onnx.ranges import analyse

INT, FLOAT, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL


def model(nodes: Sequence[Any], inputs: dict[str, tuple[int, list[Any]]], **constants: Any) -> Any:
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(nodes[-1].output[0], FLOAT, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def node(kind: str, *inputs: str, to: str = "y", **attributes: Any) -> Any:
    return helper.make_node(kind, list(inputs), [to], **attributes)


TABLE = np.zeros((50, 4), np.float32)
IDS = {"x": (INT, ["batch", "seq"])}
ZERO, ONE = np.array(0), np.array(1)

CASES: dict[str, tuple[Any, str | None]] = {
    "an Einsum of one operand": (model([node("Einsum", "x", equation="ii->i")], IDS), None),
    "a node of another domain": (model([node("Where", "x", domain="own")], IDS), None),
    "an index of a table": (model([node("Gather", "t", "x")], IDS, t=TABLE), "index:50"),
    "through casts and shapes": (
        model(
            [
                helper.make_node("Cast", ["x"], ["a"], to=TensorProto.INT32),
                node("Unsqueeze", "a", "axes", to="b"),
                node("Gather", "t", "b"),
            ],
            IDS,
            t=TABLE,
            axes=np.array([1]),
        ),
        "index:50",
    ),
    "shifted by a constant": (
        model([node("Add", "x", "two", to="a"), node("Gather", "t", "a")], IDS, t=TABLE, two=np.array(2)),
        "index:48",
    ),
    "shifted down": (
        model([node("Sub", "x", "two", to="a"), node("Gather", "t", "a")], IDS, t=TABLE, two=np.array(2)),
        "range:2:51",
    ),
    "the smallest table wins": (
        model([node("Gather", "t", "x", to="a"), node("Gather", "u", "x")], IDS, t=TABLE, u=TABLE[:9]),
        "index:9",
    ),
    "an element of the other axis": (
        model([node("GatherElements", "t", "x", axis=1)], {"x": (INT, [50, 1])}, t=TABLE),
        "index:4",
    ),
    "a class": (model([node("OneHot", "x", "d", "v")], IDS, d=np.array(7), v=np.zeros(2, np.float32)), "index:7"),
    "a place in a dimension": (
        model([node("GatherElements", "h", "x", axis=1)], {"x": (INT, ["b", 1]), "h": (FLOAT, ["b", "seq"])}),
        "index:seq",
    ),
    "one minus it, times a large negative number": (
        model(
            [
                helper.make_node("Cast", ["x"], ["f"], to=FLOAT),
                node("Sub", "one", "f", to="c"),
                node("Mul", "c", "low"),
            ],
            IDS,
            one=np.array(1, np.float32),
            low=np.array(-1e9, np.float32),
        ),
        "mask",
    ),
    "compared with zero": (
        model([node("Equal", "x", "zero", to="c"), helper.make_node("Cast", ["c"], ["y"], to=FLOAT)], IDS, zero=ZERO),
        "mask",
    ),
    "compared with padding, but an index": (
        model([node("Equal", "x", "one", to="c"), node("Gather", "t", "x")], IDS, one=ONE, t=TABLE),
        "index:50",
    ),
    "an angle": (
        model(
            [helper.make_node("Cast", ["x"], ["f"], to=FLOAT), node("Mul", "f", "w", to="a"), node("Cos", "a")],
            IDS,
            w=np.array([1.0, 0.1], np.float32),
        ),
        "positions",
    ),
    "a shape": (model([node("Expand", "t", "x")], {"x": (INT, [2])}, t=TABLE[:1]), "sizes"),
    "a divisor": (
        model([node("Div", "n", "x", to="d"), helper.make_node("Cast", ["d"], ["y"], to=FLOAT)], IDS, n=ONE),
        "range:1:7",
    ),
    "plain numbers": (model([helper.make_node("Cast", ["x"], ["y"], to=FLOAT)], IDS), None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_graph_says_what_an_integer_input_may_hold(name: str) -> None:
    given, rule = CASES[name]
    found = analyse(given).rules.get("x")
    assert found == rule


@pytest.mark.parametrize(("hides", "rule"), [(True, "padding"), (False, "mask")])
def test_a_boolean_mask_has_the_sense_that_the_scores_give_it(hides: bool, rule: str) -> None:
    branches = ("low", "s") if hides else ("s", "low")
    given = model(
        [node("Where", "x", *branches, to="a"), node("Softmax", "a")],
        {"x": (BOOL, ["b", "n"]), "s": (FLOAT, ["b", "n"])},
        low=np.array(-np.inf, np.float32),
    )
    assert analyse(given).rules["x"] == rule


def test_a_table_of_positions_limits_the_length_of_the_sequence() -> None:
    counted = [
        node("Shape", "x", to="s"),
        node("Gather", "s", "one", to="n"),
        node("Range", "zero", "n", "one", to="r"),
        node("Gather", "t", "r"),
    ]
    cut = [
        node("Shape", "x", to="s", start=1, end=2),
        node("Slice", "p", "starts", "s", "axes", to="r"),
        node("Gather", "t", "r"),
    ]
    assert analyse(model(counted, IDS, t=TABLE, zero=ZERO, one=ONE)).limits == {"seq": 50}
    positions = np.arange(40)
    assert analyse(model(cut, IDS, t=TABLE, p=positions, starts=np.array([0]), axes=np.array([0]))).limits == {
        "seq": 40
    }


def test_inputs_are_followed_into_branches_and_functions() -> None:
    then = helper.make_graph(
        [node("Gather", "t", "x", to="z")], "then", [], [helper.make_tensor_value_info("z", FLOAT, None)]
    )
    branch = model(
        [helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=then)], {**IDS, "c": (BOOL, [])}, t=TABLE
    )
    assert analyse(branch).rules["x"] == "index:50"
    called = model([helper.make_node("embed", ["t", "x"], ["y"], domain="mine")], IDS, t=TABLE)
    called.functions.append(
        helper.make_function(
            "mine", "embed", ["w", "i"], ["o"], [node("Gather", "w", "i", to="o")], [helper.make_opsetid("", 18)]
        )
    )
    assert analyse(called).rules["x"] == "index:50"
