"""What fails inside a program has the name of the operators that the compiler sees, whatever they are part of: real
workers, faulty operators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from driftline.campaign.inner_parts import torch_name
from driftline.campaign.orders import SuspectOrder
from driftline.campaign.triage import Triage
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.store import Store

PLUGINS = tuple(str(Path(__file__).parent / name) for name in ("faulty_nodes.py", "faulty_calls.py"))
NODES, CALLS = Target("faulty-nodes"), Target("faulty-calls")
pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.create(tmp_path_factory.mktemp("faulty") / "store") as store:
        yield store


def names(
    checker: Checker, store: Store, generator: str, arm: str, number: int = 0, calls: int = 1, target: Target = NODES
) -> list[str]:
    """Of the bugs that a program turns out to be."""
    load_plugins(PLUGINS)
    request = ProgramRequest(generator, arm, number, ("random",) * calls, seed="0")
    order = SuspectOrder(target, "onnx" if target == NODES else "torch", request, CheckOptions(plugins=PLUGINS))
    return sorted(bug.fingerprint.detail for bug, _ in Triage(checker, store).examine(order).bugs)


def test_operators_that_are_several_nodes(checker: Checker, store: Store) -> None:
    """They sum, and are called sums."""
    assert names(checker, store, "alone", "var") == ["reducesum of float"]
    assert names(checker, store, "alone", "count_nonzero") == ["reducesum of float"], "as wrong as one of floats"
    assert names(checker, store, "alone", "sum") == ["reducesum of float"]


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


def test_a_text_that_is_no_graph_of_ours(checker: Checker, store: Store) -> None:
    found = {detail for n in range(6) for detail in names(checker, store, "layers", "feed_forward", n, target=CALLS)}
    assert found <= {"sigmoid of float", "reducesum of float"}


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
