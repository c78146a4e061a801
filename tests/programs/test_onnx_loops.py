"""Loops in the reference evaluator do what ONNX Runtime does; the evaluator's own did not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, checker, helper

from driftline.programs.onnx.evaluator import make_evaluator


def _model(sizes: list[int], conditioned: bool) -> Any:
    """x is doubled in every iteration; what it was before is collected."""

    def typed(name: str, dtype: int = TensorProto.FLOAT, shape: Any = sizes) -> Any:
        return helper.make_tensor_value_info(name, dtype, shape)

    body = helper.make_graph(
        [
            helper.make_node("Add", ["x", "x"], ["doubled"]),
            helper.make_node("Identity", ["x"], ["seen"]),
            helper.make_node("Identity", ["before"], ["after"]),
        ],
        "body",
        [typed("turn", TensorProto.INT64, []), typed("before", TensorProto.BOOL, []), typed("x")],
        [typed("after", TensorProto.BOOL, []), typed("doubled"), typed("seen")],
    )
    loop = helper.make_node("Loop", ["most", "go" if conditioned else "", "x"], ["last", "all"], body=body)
    given = [typed("most", TensorProto.INT64, []), typed("x")]
    given += [typed("go", TensorProto.BOOL, [])] if conditioned else []
    graph = helper.make_graph([loop], "loop", given, [typed("last"), typed("all", shape=["turns", *sizes])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    checker.check_model(model)
    return model


@pytest.mark.parametrize("go", [None, True, False])
@pytest.mark.parametrize("turns", [0, 1, 3])
@pytest.mark.parametrize("sizes", [[], [2], [2, 3]])
def test_results_of_iterations_are_stacked(sizes: list[int], turns: int, go: bool | None) -> None:
    model = _model(sizes, go is not None)
    given = {"most": np.array(turns), "x": np.arange(1.0, 1.0 + np.prod(sizes), dtype=np.float32).reshape(sizes)}
    given |= {} if go is None else {"go": np.array(go)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for ours, theirs in zip(make_evaluator(model).run(None, given), session.run(None, given), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert np.array_equal(ours, theirs)
