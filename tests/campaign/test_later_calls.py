"""What shows in a later call has the name of the operator that keeps something from one call to the next: real
workers, a compiler that keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from driftline.campaign.orders import SuspectOrder
from driftline.campaign.triage.examination import Triage
from driftline.checking.batch_requests import ProgramRequest
from driftline.checking.checker import Checker
from driftline.core.case import CheckOptions
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.core.tensors import Arrays, numpy_dtype
from driftline.execute.shelf import save_samples
from driftline.generate.graph import Graph, Leaf, Node, TensorType, value_name
from driftline.store import Store

PLUGINS = (str(Path(__file__).parent / "stale_calls.py"),)
pytest.importorskip("torch")


def names(checker: Checker, folder: Path, graph: Graph, calls: Sequence[Arrays]) -> list[str]:
    """Of the bugs that a program turns out to be, compiled once and called on these inputs."""
    load_plugins(PLUGINS)
    save_samples(folder / "calls", calls)
    request = ProgramRequest("part", "", 0, ("random",) * len(calls), "0", graph=graph, inputs=str(folder / "calls"))
    order = SuspectOrder(Target("stale-calls"), "torch", request, CheckOptions(plugins=PLUGINS))
    with Store.create(folder / "store") as store:
        return sorted(bug.fingerprint.detail for bug, _ in Triage(checker, store).examine(order).bugs)


def chain(*operators: str, dtype: str = "float32", size: int = 6, varying: int = 0) -> Graph:
    """Each operator on the result of the one before it, which is a number after a mean."""
    kind = leaf = TensorType(dtype, (size,))
    nodes = []
    for at, name in enumerate(operators):
        kind = kind.with_shape(()) if name == "mean" else kind
        nodes.append(Node(name, (at,), (kind,), {"axes": (), "keepdim": False} if name == "mean" else {}))
    return Graph((Leaf("input", leaf),), tuple(nodes), (len(operators),), varying=varying)


def rows(graph: Graph, *sizes: int) -> list[Arrays]:
    """One call with each of these sizes."""
    drawn = np.random.default_rng(0)
    dtype = numpy_dtype(graph.leaves[0].type.dtype)
    return [{value_name(graph, 0): (drawn.uniform(1, 2, size=size)).astype(dtype)} for size in sizes]


def test_one_of_many_operators_after_another_call(checker: Checker, tmp_path: Path) -> None:
    graph = chain("neg", "sin", "neg", "relu")
    assert names(checker, tmp_path, graph, rows(graph, 6, 6)) == ["sin after another call of float"]


def test_at_the_size_of_another_call(checker: Checker, tmp_path: Path) -> None:
    """That the size changes in between has no part in it."""
    graph = chain("abs", "sin", "relu", varying=6)
    assert names(checker, tmp_path, graph, rows(graph, 6, 8, 6)) == ["sin after another call of float"]


def test_a_second_size(checker: Checker, tmp_path: Path) -> None:
    """In the plainest dtype, as everything else."""
    graph = chain("neg", "abs", "mean", "exp", dtype="float16", varying=6)
    assert names(checker, tmp_path, graph, rows(graph, 6, 8)) == ["reducemean of float"]


def test_without_its_gradient(checker: Checker, tmp_path: Path) -> None:
    """A result of another call has none: that is no bug of its own."""
    graph = replace(chain("abs", "sin", "relu"), grad=True)
    assert names(checker, tmp_path, graph, rows(graph, 6, 6)) == ["sin after another call of float"]


def test_two_operators_of_which_neither_keeps_anything_alone(checker: Checker, tmp_path: Path) -> None:
    graph = chain("neg", "abs", "exp", "neg")
    assert names(checker, tmp_path, graph, rows(graph, 6, 6)) == ["abs+exp after another call of float"]


def test_what_fails_when_it_is_called_once_is_cut_so(checker: Checker, tmp_path: Path) -> None:
    """The first of its inputs hide it: the name tells of no other call."""
    graph = chain("neg", "floor", "neg")
    first, second = rows(graph, 6, 6)
    first = {name: np.round(array) for name, array in first.items()}
    assert names(checker, tmp_path, graph, [first, second]) == ["floor of float"]
