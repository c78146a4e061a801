"""The reference evaluator is a witness: where it is wrong, it is set right."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper

from driftline.programs.onnx_evaluator import make_evaluator


def test_an_output_that_is_not_wanted_is_not_taken_for_an_input_that_is_left_out() -> None:
    """RNN's first output has no name here, and Clip's lower bound is left out: both are the empty name."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("RNN", ["x", "w", "r"], ["", "h"], hidden_size=1),
            helper.make_node("Clip", ["z", "", "high"], ["y"]),
        ],
        "g",
        [
            value("x", TensorProto.FLOAT, [1, 1, 1]),
            value("w", TensorProto.FLOAT, [1, 1, 1]),
            value("r", TensorProto.FLOAT, [1, 1, 1]),
            value("z", TensorProto.FLOAT, []),
            value("high", TensorProto.FLOAT, []),
        ],
        [value("h", TensorProto.FLOAT, None), value("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    before = model.SerializeToString()
    ones = np.ones((1, 1, 1), np.float32)
    inputs = {"x": ones, "w": ones, "r": ones, "z": np.float32(-7), "high": np.float32(5)}
    hidden, clipped = make_evaluator(model).run(None, {name: np.asarray(array) for name, array in inputs.items()})
    assert clipped == -7 and hidden.shape == (1, 1, 1)
    assert model.SerializeToString() == before  # the caller's model stays as it is


@pytest.mark.parametrize(
    "pool", ["LpPool <kernel_shape: ints = [2], p: int = 2>", "AveragePool <kernel_shape: ints = [2]>"]
)
@pytest.mark.parametrize("opset", [11, 18, 19])
def test_a_window_with_nan_is_nan(pool: str, opset: int) -> None:
    """The evaluator takes NaN for padding."""
    text = f'<ir_version: 8, opset_import: ["": {opset}]> g (float[1,1,4] x) => (float[1,1,3] y) {{ y = {pool} (x) }}'
    x = np.array([[[3.0, 4.0, np.nan, 1.0]]], np.float32)
    (y,) = make_evaluator(onnx.parser.parse_model(text)).run(None, {"x": x})
    assert np.isnan(y[0, 0]).tolist() == [False, True, True]
    assert y[0, 0, 0] == (5.0 if "LpPool" in pool else 3.5)
