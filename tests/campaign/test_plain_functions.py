"""What fails with any function goes by the plainest: real workers, compilers that are wrong about pairs of calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from driftline.campaign.orders import SuspectOrder
from driftline.campaign.triage.examination import Triage
from driftline.campaign.triage.plain_functions import OF_ONNX, OF_TABLE, OF_TORCH, PlainFunctions, with_plain_function
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.diagnose.reduce.generated import read_generated
from driftline.diagnose.reduce.graph import ProgramNode
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.store import Store

PLUGIN = str(Path(__file__).parent / "faulty_fusions.py")
FUSIONS, AND_RELU = Target("faulty-fusions"), Target("faulty-fusions-and-relu")
OF_TWO = Target("faulty-fusions-of-two")
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


@pytest.mark.parametrize("function", ["silu", "tanh", "relu"])
def test_a_product_of_any_function(checker: Checker, store_folder: Path, function: str) -> None:
    assert names(checker, store_folder, product_of(function)) == ["wrong-value: matmul+relu of float"]


def test_where_the_plain_function_fails_beside_it_for_a_reason_of_its_own(checker: Checker, store_folder: Path) -> None:
    """No third one does."""
    assert names(checker, store_folder, product_of("silu"), OF_TWO) == ["wrong-value: matmul+silu of float"]


def test_where_the_plain_function_is_wrong_itself(checker: Checker, store_folder: Path) -> None:
    """That is another bug."""
    found = names(checker, store_folder, product_of("sigmoid"), AND_RELU)
    assert found == ["wrong-value: matmul+sigmoid of float"]


@pytest.mark.parametrize("functions", [("relu", "tanh"), ("exp", "sin")])
def test_any_two_functions_have_one_name(checker: Checker, store_folder: Path, functions: tuple[str, str]) -> None:
    nodes = tuple(Node(name, (at,), (WIDE,)) for at, name in enumerate(functions))
    graph = Graph((Leaf("input", WIDE),), nodes, (2,))
    assert names(checker, store_folder, graph) == ["wrong-value: relu+sigmoid of float"]


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_what_is_written_through_a_view_is_lost(checker: Checker, store_folder: Path, dtype: str) -> None:
    """One call of the table, two of torch: `x.mT.add_(1)`."""
    row = TensorType(dtype, (3, 5))
    graph = Graph((Leaf("input", row),), (Node("transpose_add_", (0,), (row,)),), (1,))
    assert names(checker, store_folder, graph) == ["wrong-structure: relu+transpose of float"]


def test_operands_from_outside_are_dropped_and_what_reads_two_results_stays() -> None:
    nodes = (Node("exp", (0,), (WIDE,)), Node("add", (2, 1), (WIDE,)), Node("sub", (3, 2), (WIDE,)))
    graph = Graph((Leaf("input", WIDE), Leaf("input", WIDE)), nodes, (4,))
    forms = list(with_plain_function(read_generated(graph), OF_TABLE))
    assert [form.operators for one in forms for form in one] == [
        ["relu", "add", "sub"],
        ["sigmoid", "add", "sub"],
        ["exp", "relu", "sub"],
        ["exp", "sigmoid", "sub"],
    ]
    assert [[leaf.number for leaf in form.leaves] for form, _ in forms] == [[0, 1], [0]]


@pytest.mark.parametrize(
    ("words", "op", "others", "instead"),
    [
        (OF_TABLE, "exp", [], ["relu", "sigmoid"]),
        (OF_TABLE, "sigmoid", [], ["relu", "tanh"]),
        (OF_TABLE, "relu", ["matmul"], []),
        (OF_TABLE, "exp", ["relu"], ["sigmoid", "tanh"]),
        (OF_TABLE, "sigmoid", ["relu"], []),
        (OF_TABLE, "exp", ["relu_"], ["sigmoid", "tanh"]),
        (OF_TABLE, "exp", ["relu", "sigmoid", "tanh"], []),
        (OF_TORCH, "torch.exp", ["torch.nn.functional.relu"], ["torch.sigmoid", "torch.tanh"]),
        (OF_TORCH, ".relu", ["torch.matmul"], []),
        (OF_ONNX, "Exp", ["Relu"], ["Sigmoid", "Tanh"]),
        (OF_ONNX, "Relu", ["MatMul"], []),
    ],
)
def test_the_plainest_function_that_the_program_has_not_yet(
    words: PlainFunctions, op: str, others: list[str], instead: list[str]
) -> None:
    """However it is spelled."""
    assert [call.op for call in words.instead_of(ProgramNode(op, (0,), (1,)), others)] == instead


def test_functions_that_write_to_their_operand() -> None:
    calls = OF_TORCH.instead_of(ProgramNode(".sigmoid_", (0, 2), (1,), effects=True), [".select"])
    assert [(call.op, call.inputs, call.effects) for call in calls] == [(".relu_", (0,), True), (".add_", (0,), True)]
    assert calls[1].attributes == {"args": [{"$": 0}, 1]}


@pytest.mark.parametrize(("op", "dtype"), [("neg", "int32"), ("logical_not", "bool")])
def test_what_is_no_function_of_floats_stays(op: str, dtype: str) -> None:
    row = TensorType(dtype, (4,))
    graph = Graph((Leaf("input", row),), (Node(op, (0,), (row,)), Node("flip", (1,), (row,), {"axes": [0]})), (2,))
    assert not list(with_plain_function(read_generated(graph), OF_TABLE))
