"""What fails inside a program has the name of the operators that the compiler sees, whatever they are part of: real
workers, faulty operators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from driftline.campaign.orders import SuspectOrder
from driftline.campaign.triage.examination import Triage
from driftline.campaign.triage.failing_program import called, torch_name
from driftline.campaign.triage.inner_parts import is_unchanged_input
from driftline.campaign.triage.part_screening import PART
from driftline.checking.batch import Screened
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.evidence import Evidence
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.core.verdict import Kind
from driftline.diagnose.reduce.graph import ProgramNode
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.store import Store

PLUGINS = tuple(str(Path(__file__).parent / name) for name in ("faulty_nodes.py", "faulty_calls.py"))
NODES, CALLS = Target("faulty-nodes"), Target("faulty-calls")
pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.create(tmp_path_factory.mktemp("faulty") / "store") as store:
        yield store


def names(
    checker: Checker,
    store: Store,
    generator: str,
    arm: str,
    number: int = 0,
    calls: int = 1,
    target: Target = NODES,
    graph: Graph | None = None,
) -> list[str]:
    """Of the bugs that a program turns out to be."""
    load_plugins(PLUGINS)
    request = ProgramRequest(generator, arm, number, ("random",) * calls, seed="0", graph=graph)
    order = SuspectOrder(target, "onnx" if target == NODES else "torch", request, CheckOptions(plugins=PLUGINS))
    return sorted(bug.fingerprint.detail for bug, _ in Triage(checker, store).examine(order).bugs)


def test_operators_that_are_several_nodes(checker: Checker, store: Store) -> None:
    """They sum, and are called sums."""
    assert names(checker, store, "alone", "var") == ["reducesum of float"]
    assert names(checker, store, "alone", "count_nonzero") == ["reducesum of float"], "as wrong as one of floats"
    assert names(checker, store, "alone", "sum") == ["reducesum of float"]


def test_a_bug_that_is_in_two_parts_is_named_once(checker: Checker, tmp_path: Path) -> None:
    row, one = TensorType("float32", (2, 16)), TensorType("float32", (2, 1))
    along = {"axes": [1], "keepdim": True}
    nodes = (Node("sum", (0,), (one,), along), Node("var", (0,), (one,), {**along, "correction": 0}))
    graph = Graph((Leaf("input", row),), nodes, (1, 2))
    with Store.create(tmp_path / "store") as store:
        assert names(checker, store, "graph", "", graph=graph) == ["reducesum of float"]


def test_operator_tests_of_any_dtype(checker: Checker, store: Store) -> None:
    """They are no graphs of ours, and one node each."""
    found = {detail for number in range(8) for detail in names(checker, store, "optests", "Sign", number)}
    assert found == {"sign of float"}


def test_a_model_that_is_no_graph_of_ours(checker: Checker, store: Store) -> None:
    """Every other one of an idiom's has a node behind it that has nothing to do with the bug."""
    for second in (0, 1):
        found = {detail for n in range(second, 12, 2) for detail in names(checker, store, "idioms", "relu_clip", n)}
        assert found == {"clip+relu of float"}, "where the bounds hide what is lost, there is no bug"


def test_an_error_is_that_of_a_node(checker: Checker, store: Store) -> None:
    assert names(checker, store, "alone", "gelu_tanh") == ["ValueError in tanh of float"]


def test_in_a_later_call(checker: Checker, store: Store) -> None:
    assert names(checker, store, "alone", "rsqrt", calls=2) == ["sqrt after another call of float"]


def test_what_only_moves_elements_is_named_in_one_dtype(checker: Checker, store: Store) -> None:
    found = {detail for number in range(12) for detail in names(checker, store, "alone", "permute", number)}
    assert found == {"transpose of float"}, "those whose axes have one element are right"


def test_operators_that_are_several_calls_of_torch(checker: Checker, store: Store) -> None:
    assert names(checker, store, "alone", "sum_square", target=CALLS) == ["reducesum of float"]
    assert names(checker, store, "alone", "sum", target=CALLS) == ["reducesum of float"]


def test_a_call_that_goes_by_another_name(checker: Checker, store: Store) -> None:
    """What the table calls `complex_abs` is the `abs` of torch."""
    assert names(checker, store, "alone", "complex_abs", target=CALLS) == ["abs of complex"]


def test_a_text_that_is_no_graph_of_ours(checker: Checker, store: Store) -> None:
    found = {detail for n in range(6) for detail in names(checker, store, "layers", "feed_forward", n, target=CALLS)}
    assert found <= {"sigmoid of float", "reducesum of float"}


@pytest.mark.parametrize(
    ("wanted", "came", "is_unchanged"),
    [
        (("output 0", "mutated:x"), ("output 0",), True),
        (("output 0", "output 1"), ("output 0",), False),
        (("output 0",), ("output 0", "mutated:x"), False),
        (("output 0", "mutated:x"), ("output 1",), False),
    ],
)
def test_a_write_that_is_lost_is_a_wrong_number_in_the_whole(
    wanted: tuple[str, ...], came: tuple[str, ...], is_unchanged: bool
) -> None:
    """What is written to is an input of the part, and a value in between there."""
    part = Screened(PART, "fail", kind=Kind.WRONG_STRUCTURE, evidence=Evidence(wanted=wanted, came=came))
    assert is_unchanged_input(part) == is_unchanged


@pytest.mark.parametrize(
    ("call", "tensors", "dtype", "name"),
    [
        ("torch.max", 1, "float32", "amax"),
        ("torch.max", 2, "float32", "max"),
        ("torch.amax", 1, "float32", "amax"),
        ("operator.and_", 2, "int32", "bitwise_and"),
        ("operator.and_", 2, "bool", "and"),
        ("torch.logical_and", 2, "int32", "logical_and"),
    ],
)
def test_functions_of_torch_with_one_name_are_told_apart(call: str, tensors: int, dtype: str, name: str) -> None:
    assert torch_name(call, tensors, dtype) == name


@pytest.mark.parametrize(
    ("op", "attribute", "name"),
    [("getattr", "mT", "transpose"), ("getattr", "real", "real"), ("torch.transpose", "mT", "torch.transpose")],
)
def test_an_attribute_that_is_read_goes_by_its_own_name(op: str, attribute: str, name: str) -> None:
    assert called(ProgramNode(op, (0,), (1,), {"args": [{"$": 0}, attribute]})) == name
