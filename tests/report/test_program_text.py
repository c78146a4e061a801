"""The text of a program as people are shown it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from driftline.core.program import Program
from driftline.report.program import program_text


def _text(tmp_path: Path, weight: list[float]) -> str:
    sizes = [len(weight)]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes) for name in ("x", "y")]
    constants = [numpy_helper.from_array(np.array(weight, np.float32), "w")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", value[:1], value[1:], constants)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph), str(path))
    return program_text(Program("onnx", "onnx", "", path, "model"))


def test_a_long_weight_is_begun_and_counted(tmp_path: Path) -> None:
    text = _text(tmp_path, [0.5, float("-inf"), 1e-30] * 700)
    assert "{0.5, -inf, 1e-30, 0.5, -inf, 1e-30, … 2,100 in all}" in text
    assert "Add (x, w)" in text


def test_a_short_one_is_shown_whole(tmp_path: Path) -> None:
    assert "{1,2,3,4}" in _text(tmp_path, [1.0, 2.0, 3.0, 4.0])
