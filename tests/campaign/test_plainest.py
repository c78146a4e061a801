"""A bug goes by its plainest failure: real workers, a compiler that is wrong in several ways."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from driftline.campaign.orders import SuspectOrder
from driftline.campaign.triage.examination import Triage
from driftline.campaign.triage.plainest import of_floats, plain_numbers, small
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.evidence import Evidence, Fault
from driftline.core.identity import is_plain
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.core.tensors import numpy_dtype
from driftline.core.verdict import Kind
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.store import Store

PLUGIN = str(Path(__file__).parent / "faulty_calls.py")
TARGET = Target("faulty-calls")
SPECIALS = ("specials",) * 6  # samples: not each has a NaN


def names(checker: Checker, folder: Path, graph: Graph, *strategies: str) -> list[str]:
    """Of the bugs that a graph turns out to be."""
    load_plugins([PLUGIN])
    request = ProgramRequest("graph", "", 0, strategies, seed="0", graph=graph)
    order = SuspectOrder(TARGET, "torch", request, CheckOptions(plugins=(PLUGIN,)))
    with Store.create(folder) as store:
        bugs = [bug for bug, _ in Triage(checker, store).examine(order).bugs]
    return sorted(f"{bug.fingerprint.kind}: {bug.fingerprint.detail}" for bug in bugs)


def one(op: str, dtype: str, **more: bool) -> Graph:
    row = TensorType(dtype, (64,))
    return Graph((Leaf("input", row),), (Node(op, (0,), (row,)),), (1,), **more)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_what_is_wrong_about_ordinary_numbers_too_is_not_about_nan(
    checker: Checker, store_folder: Path, dtype: str
) -> None:
    """With special values it is a lost NaN that is seen first."""
    assert names(checker, store_folder, one("sigmoid", dtype), *SPECIALS) == ["wrong-value: sigmoid of float"]


@pytest.mark.parametrize("op", ["tanh", "erf"])
def test_what_is_right_about_some_ordinary_numbers_is_about_nan(checker: Checker, store_folder: Path, op: str) -> None:
    assert names(checker, store_folder, one(op, "float32"), "nan") == [f"wrong-nan-inf: {op} of float"]


@pytest.mark.parametrize("dtype", ["int64", "int8"])
def test_integers_that_come_out_as_wrong_as_floats(checker: Checker, store_folder: Path, dtype: str) -> None:
    assert names(checker, store_folder, one("neg", dtype), "random") == ["wrong-value: neg of float"]


def test_a_gradient_of_what_is_wrong_without_one(checker: Checker, store_folder: Path) -> None:
    graph = one("sigmoid", "float32", grad=True)
    assert names(checker, store_folder, graph, *SPECIALS) == ["wrong-value: sigmoid of float"]


def test_a_gradient_that_is_wrong_alone(checker: Checker, store_folder: Path) -> None:
    graph = one("silu", "float32", grad=True)
    assert names(checker, store_folder, graph, "random") == ["wrong-value: silu with gradient of float"]


def test_a_gradient_that_is_nan_where_the_function_is_wrong(checker: Checker, store_folder: Path) -> None:
    assert names(checker, store_folder, one("atan", "float32", grad=True), "random") == ["wrong-value: atan of float"]


def test_a_gradient_of_nan_where_the_function_is_wrong_on_other_inputs(checker: Checker, store_folder: Path) -> None:
    """A NaN that the function lets through, and a clamp in its gradient does not."""
    assert names(checker, store_folder, one("cos", "float32", grad=True), "nan") == ["wrong-value: cos of float"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_ties_in_any_dtype(checker: Checker, store_folder: Path, dtype: str) -> None:
    """In a narrow one other numbers fail besides, which are right in float32."""
    assert names(checker, store_folder, one("round", dtype), *("random", "specials") * 2) == [
        "wrong-value: round of float"
    ]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_less_precise_in_a_narrow_dtype_and_wrong_in_a_wide_one(
    checker: Checker, store_folder: Path, dtype: str
) -> None:
    assert names(checker, store_folder, one("asinh", dtype), "random") == ["wrong-value: asinh of float"]


def test_complex_numbers_that_come_out_as_wrong_as_floats(checker: Checker, store_folder: Path) -> None:
    assert names(checker, store_folder, one("complex_neg", "complex64"), "random") == ["wrong-value: neg of float"]


@pytest.mark.parametrize("dtype", ["int64", "float16"])
def test_casts_to_another_dtype_and_back(checker: Checker, store_folder: Path, dtype: str) -> None:
    given, between = TensorType(dtype, (64,)), TensorType("bool", (64,))
    nodes = (Node("cast", (0,), (between,), {"to": "bool"}), Node("cast", (1,), (given,), {"to": dtype}))
    graph = Graph((Leaf("input", given),), nodes, (2,))
    assert names(checker, store_folder, graph, "random") == ["wrong-value: to of float"]


def test_a_drift_is_a_plain_wrong_value() -> None:
    """It has the same name."""
    number = Evidence(faults=(Fault.NUMBER,))
    assert is_plain(Kind.WRONG_VALUE, number) and is_plain(Kind.BIAS, number)
    assert not is_plain(Kind.WRONG_NONFINITE, Evidence(faults=(Fault.NAN_MADE,)))
    assert not is_plain(Kind.WRONG_VALUE, Evidence(faults=(Fault.TIES,)))
    assert not is_plain(Kind.BIAS, Evidence(faults=(Fault.NUMBER,), policies=("tf32",)))


def test_small_integers_keep_their_signs() -> None:
    given = np.array([-14, -7, -3, 0, 3, 7, 100], "int8")
    np.testing.assert_array_equal(small(given), np.array([-6, -6, -3, 0, 3, 6, 2], "int8"))
    np.testing.assert_array_equal(small(np.array([0, 7, 250], "uint8")), np.array([0, 6, 5], "uint8"))
    assert small(given).dtype == given.dtype
    np.testing.assert_array_equal(small(np.array([True, False])), [True, False])


def test_what_is_tried_as_floats() -> None:
    assert of_floats(["int64"]) == [{0}]
    assert of_floats(["int64", "int64"]) == [{0, 1}, {0}], "the second may be an index"
    assert of_floats(["bool", "int32"]) == [{1}], "a mask stays one"
    assert of_floats(["bool"]) == [{0}]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64", "complex64", "int64", "bool"])
def test_ordinary_numbers_are_finite_and_the_same_each_time(dtype: str) -> None:
    given = np.ones((3, 2), numpy_dtype(dtype))
    drawn = plain_numbers(16.0, "x")(given)
    assert (drawn.dtype, drawn.shape) == (given.dtype, given.shape)
    assert np.isfinite(drawn.astype(np.complex128)).all()
    np.testing.assert_array_equal(drawn, plain_numbers(16.0, "x")(given))
    if dtype in ("int64", "bool"):
        np.testing.assert_array_equal(drawn, given)
