"""What fails with any function goes by the plainest: real workers, compilers that are wrong about pairs of calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftline.campaign.orders import SuspectOrder
from driftline.campaign.plain_functions import OF_TABLE, with_plain_function
from driftline.campaign.triage import Triage
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.diagnose.reduce.generated import read_generated
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.store import Store

PLUGIN = str(Path(__file__).parent / "faulty_fusions.py")
FUSIONS, AND_RELU = Target("faulty-fusions"), Target("faulty-fusions-and-relu")
WIDE, TALL, SQUARE = (TensorType("float32", shape) for shape in ((3, 5), (5, 3), (3, 3)))


def names(checker: Checker, folder: Path, graph: Graph, target: Target = FUSIONS) -> list[str]:
    """Of the bugs that a graph turns out to be."""
    load_plugins([PLUGIN])
    request = ProgramRequest("graph", "", 0, ("random",), seed="0", graph=graph)
    order = SuspectOrder(target, "torch", request, CheckOptions(plugins=(PLUGIN,)))
    with Store.create(folder) as store:
        bugs = [bug for bug, _ in Triage(checker, store).examine(order).bugs]
    return sorted(f"{bug.fingerprint.kind}: {bug.fingerprint.detail}" for bug in bugs)


def product_of(function: str) -> Graph:
    nodes = (Node(function, (0,), (WIDE,)), Node("matmul", (2, 1), (SQUARE,)))
    return Graph((Leaf("input", WIDE), Leaf("input", TALL)), nodes, (3,))


@pytest.mark.parametrize("function", ["sigmoid", "tanh", "relu"])
def test_a_product_of_any_function(checker: Checker, store_folder: Path, function: str) -> None:
    assert names(checker, store_folder, product_of(function)) == ["wrong-value: matmul+relu of float"]


def test_where_the_plain_function_is_wrong_itself(checker: Checker, store_folder: Path) -> None:
    """That is another bug."""
    found = names(checker, store_folder, product_of("sigmoid"), AND_RELU)
    assert found == ["wrong-value: matmul+sigmoid of float"]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_what_is_written_through_a_view_is_lost(checker: Checker, store_folder: Path, dtype: str) -> None:
    """One call of the table, two of torch: `x.mT.add_(1)`."""
    row = TensorType(dtype, (3, 5))
    graph = Graph((Leaf("input", row),), (Node("transpose_add_", (0,), (row,)),), (1,))
    assert names(checker, store_folder, graph) == ["wrong-structure: relu+transpose of float"]


def test_operands_are_left_out_unless_they_are_results() -> None:
    nodes = (Node("exp", (0,), (WIDE,)), Node("add", (2, 1), (WIDE,)), Node("sub", (3, 2), (WIDE,)))
    graph = Graph((Leaf("input", WIDE), Leaf("input", WIDE)), nodes, (4,))
    forms = list(with_plain_function(read_generated(graph), OF_TABLE))
    assert [form.operators for form in forms] == [["relu", "add", "sub"], ["exp", "relu", "sub"]]
    assert [[leaf.number for leaf in form.leaves] for form in forms] == [[0, 1], [0]]


def test_no_function_takes_the_place_of_a_plain_one_or_is_there_twice() -> None:
    nodes = (Node("relu", (0,), (WIDE,)), Node("exp", (1,), (WIDE,)), Node("abs", (2,), (WIDE,)))
    (form,) = with_plain_function(read_generated(Graph((Leaf("input", WIDE),), nodes[:2], (2,))), OF_TABLE)
    assert form.operators == ["relu", "abs"]
    assert not list(with_plain_function(read_generated(Graph((Leaf("input", WIDE),), nodes, (3,))), OF_TABLE))


@pytest.mark.parametrize(("op", "dtype"), [("neg", "int32"), ("logical_not", "bool")])
def test_what_is_no_function_of_floats_stays(op: str, dtype: str) -> None:
    row = TensorType(dtype, (4,))
    graph = Graph((Leaf("input", row),), (Node(op, (0,), (row,)), Node("flip", (1,), (row,), {"axes": [0]})), (2,))
    assert not list(with_plain_function(read_generated(graph), OF_TABLE))
