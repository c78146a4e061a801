"""Several inputs of one program in one question, on real workers: each is judged by itself, whatever others do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from driftline.checking.checker import Checker
from driftline.checking.open import open_program
from driftline.core.case import Case, CheckOptions, Inputs
from driftline.core.plugins import load_plugins
from driftline.core.target import Target
from driftline.diagnose.reduce import search
from driftline.diagnose.reduce.reducer import MINIMAL, Reduction, reduce_case
from driftline.diagnose.reduce.signature import Signature

PLUGINS = (str(Path(__file__).with_name("reduce_backends.py")),)


@pytest.fixture(scope="module", autouse=True)
def backends() -> None:
    load_plugins(PLUGINS)


def reduced(
    node: Any, target: str, array: Any, folder: Path, checker: Checker, constants: dict[str, Any] | None = None
) -> Reduction:
    graph = helper.make_graph(
        [node],
        "test",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * array.ndim)],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    options = CheckOptions(plugins=PLUGINS)
    program = open_program(str(path), checker.pool, options).program
    case = Case(program, (Inputs({"x": array}, "given"),), (Target.parse(target),), options)
    return reduce_case(checker, case, Signature("RUN", "wrong-value"), budget=900)


def left(found: Reduction) -> list[float]:
    (array,) = found.case.samples[0].arrays.values()
    return np.ravel(array).tolist()


def test_the_element_and_its_roundest_version_at_once(checker: Checker, tmp_path: Path) -> None:
    array = np.linspace(-6, 6, 24, dtype=np.float32).reshape(4, 6)
    found = reduced(helper.make_node("Abs", ["x"], ["y"]), "odd-second-sample", array, tmp_path, checker)
    assert (left(found), found.ended) == ([6.0], MINIMAL)
    # Two looks at the whole, all elements, the one by itself, the nearest by itself, and the check of the result.
    assert found.queries <= 6


@pytest.mark.parametrize("target", ["odd-touchy", "odd-choosy"])
def test_an_input_that_ends_the_run_of_others(target: str, checker: Checker, tmp_path: Path) -> None:
    array = np.full((4, 6), 2.5, np.float32)
    array[1, 2], array[3, 3] = 1000.0, 7.5
    found = reduced(helper.make_node("Abs", ["x"], ["y"]), target, array, tmp_path, checker)
    assert found.ended == MINIMAL
    assert len(left(found)) == 1 and 5 < left(found)[0] <= 100
    assert not found.internal_errors


def test_a_program_that_ends_on_every_input(checker: Checker, tmp_path: Path) -> None:
    """It is asked about the first input and the last, not about each."""
    array = np.linspace(-6, 6, 24, dtype=np.float32).reshape(4, 6)
    found = reduced(helper.make_node("Abs", ["x"], ["y"]), "odd-no-scalars", array, tmp_path, checker)
    assert (left(found), found.after.axes, found.ended) == ([6.0], 1, MINIMAL)
    assert found.queries <= 14


def test_what_fails_only_after_another_input_does_not_count(checker: Checker, tmp_path: Path) -> None:
    array = np.full((4, 6), 2.5, np.float32)
    array[3, 3] = 7.5
    found = reduced(helper.make_node("Abs", ["x"], ["y"]), "odd-stale", array, tmp_path, checker)
    assert (left(found), found.ended) == ([8.0], MINIMAL)


def test_the_nearest_that_passes_does_so_by_itself(
    checker: Checker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("LOOKED_AT", "OF_ONE_PROGRAM"):  # this compiler makes nearly all of them seem to pass
        monkeypatch.setattr(search, limit, 64)
    array = np.linspace(1, 7, 24, dtype=np.float32).reshape(4, 6)
    found = reduced(helper.make_node("Abs", ["x"], ["y"]), "odd-settling", array, tmp_path, checker)
    assert found.nearest is not None, "0 passes"
    (result,) = checker.check(found.nearest).results
    assert result.verdict.judgement == "pass"


def test_inputs_that_the_program_itself_refuses(checker: Checker, tmp_path: Path) -> None:
    """The table has one entry: 1 is no index of it, but 0 and -1 are."""
    array = np.array([[0, -1, 0], [0, 0, -1]])
    node = helper.make_node("Gather", ["table", "x"], ["y"])
    found = reduced(node, "odd-from-behind", array, tmp_path, checker, {"table": np.ones(1, np.float32)})
    assert found.ended == MINIMAL
    indices = [array for array in found.case.samples[0].arrays.values() if array.dtype.kind == "i"]
    assert np.ravel(indices).tolist() == [-1]
    assert not found.internal_errors
