"""What an audit takes for rounding is what legal implementations may do, and nothing more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from driftline.core.program import Program
from driftline.core.tensors import Array, Arrays
from driftline.execute.shelf import Shelf
from driftline.patterns.rounding import only_rounded
from driftline.patterns.survey import SurveyJob, SurveyModel, difference, far_apart

_RNG = np.random.default_rng(0)
X, Y, Z = (_RNG.uniform(1.0, 2.0, size=(4, 16)).astype(np.float32) for _ in range(3))
X[0, 0] = 4000.0  # beside it, the other numbers are small
TWICE = X * Y + Z
ONCE = (X.astype(np.float64) * Y + Z).astype(np.float32)  # as an instruction that multiplies and adds rounds it


@pytest.fixture
def job(tmp_path: Path) -> SurveyJob:
    """A product and a sum, on two samples."""
    values = [helper.make_tensor_value_info(name, 1, X.shape) for name in ("x", "y", "z", "out")]
    nodes = [helper.make_node("Mul", ["x", "y"], ["xy"]), helper.make_node("Add", ["xy", "z"], ["out"])]
    graph = helper.make_graph(nodes, "g", values[:3], values[3:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    program = Program("onnx", "onnx", "", path, "model")
    with Shelf(tmp_path / "tensors") as shelf:
        tensors = shelf.put_samples([{"x": X, "y": Y, "z": Z}, {"x": -X, "y": Y, "z": -Z}])
        native = shelf.put_samples(_results(TWICE))
    return SurveyJob(SurveyModel(0, program, tensors, native), tmp_path)


def _results(first: Array) -> list[Arrays]:
    return [{"out": first}, {"out": -TWICE}]


def _with(number: float) -> Array:
    changed = TWICE.copy()
    changed[1, 1] = number
    return changed


SLIGHTLY_OFF = _with(TWICE[1, 1] * 1.0001)


def test_one_rounding_in_place_of_two_is_nothing_else(job: SurveyJob) -> None:
    assert difference(job.expected(), _results(ONCE))
    assert only_rounded(job, _results(ONCE))


@pytest.mark.parametrize(
    "got",
    [
        pytest.param(SLIGHTLY_OFF, id="slightly off"),
        pytest.param(_with(np.nan), id="nan"),
        pytest.param(X * Y, id="no sum"),
        pytest.param(TWICE[:2], id="shape"),
        pytest.param(TWICE.astype(np.float64), id="dtype"),
    ],
)
def test_something_else_is_not_taken_for_rounding(job: SurveyJob, got: Array) -> None:
    assert not only_rounded(job, _results(got))


def test_a_share_of_the_largest_number_would_not_tell(job: SurveyJob) -> None:
    assert not far_apart(_results(SLIGHTLY_OFF), job.expected(), 1e-6)


def test_what_cannot_be_told_stays_suspect(job: SurveyJob) -> None:
    job.model.program.path.write_bytes(b"no model")
    assert not only_rounded(job, _results(TWICE))
