"""The reference evaluator is a witness: where it is wrong, it is set right."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnx.parser
import pytest
import torch
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("image", "weights", "attributes"),
    [
        ((2, 3, 5), (3, 4, 3), {"strides": [2], "pads": [1, 2], "output_padding": [1]}),
        ((1, 2, 4, 5), (2, 3, 3, 2), {"strides": [2, 3], "dilations": [2, 1], "pads": [1, 0, 2, 1]}),
        ((1, 2, 3, 1, 4), (2, 1, 2, 1, 3), {"strides": [1, 3, 3], "pads": [0, 0, 2] * 2, "output_padding": [0, 0, 2]}),
        ((1, 3, 4, 4), (3, 1, 2, 2), {"group": 3, "strides": [2, 2]}),
        ((1, 2, 4, 4), (2, 2, 3, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        ((1, 2, 4), (2, 2, 3), {"output_shape": [9], "strides": [2]}),
        ((1, 1, 3), (1, 1, 4), {"pads": [3, 2]}),
    ],
)  # fmt: skip
def test_a_transposed_convolution_is_what_the_evaluator_adds_up_point_by_point(
    image: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, Any], dtype: Any
) -> None:
    """The evaluator's own loop is slow, and right where groups are of one channel: not a bit may differ."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    value = helper.make_tensor_value_info
    inputs = {"x": image, "w": weights} | ({} if "group" in attributes else {"b": (weights[1],)})
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", list(inputs), ["y"], **attributes)],
        "g",
        [value(name, kind, shape) for name, shape in inputs.items()],
        [value("y", kind, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(shape).astype(dtype) for name, shape in inputs.items()}
    (own,), (naive,) = make_evaluator(model).run(None, arrays), ReferenceEvaluator(model).run(None, arrays)
    assert own.dtype == naive.dtype and own.shape == naive.shape and own.tobytes() == naive.tobytes()


@pytest.mark.parametrize(
    "image, weights, attributes, cropped",
    [
        ((1, 2, 4, 4), (2, 1, 3, 3), {"group": 2, "strides": [2, 2]}, (0, 0)),
        ((2, 4, 3, 4), (4, 3, 2, 3), {"group": 2}, (0, 0)),
        ((2, 6, 3, 3), (6, 1, 2, 2), {"group": 3}, (0, 0)),
        ((0, 2, 3, 3), (2, 4, 2, 2), {}, (0, 0)),
        ((1, 2, 3, 3), (2, 3, 3, 3), {"strides": [3, 2], "output_shape": [8, 5], "pads": [9, 9, 9, 9]}, (1, 1)),
    ],
    ids=["one channel each", "several outputs", "several inputs", "empty batch", "output_shape"],
)
def test_a_transposed_convolution_is_that_of_torch_where_the_evaluator_is_wrong(
    image: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, Any], cropped: tuple[int, int]
) -> None:
    """With a bias its own gives the first number of it to every group, and fails where groups have more channels, where
    there is no image, and where `output_shape` is smaller than what the kernel reaches."""
    shapes = {"x": image, "w": weights, "b": (weights[1] * attributes.get("group", 1),)}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", list(shapes), ["y"], **attributes)],
        "g",
        [value(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [value("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    (own,) = make_evaluator(model).run(None, arrays)
    strides, groups = attributes.get("strides", [1, 1]), attributes.get("group", 1)
    expected = torch.conv_transpose2d(*map(torch.tensor, arrays.values()), stride=strides, groups=groups).numpy()
    high, wide = attributes.get("output_shape", expected.shape[2:])
    top, left = cropped
    np.testing.assert_allclose(own, expected[:, :, top : top + high, left : left + wide], rtol=1e-5, atol=1e-5)


def test_a_transposed_convolution_in_three_dimensions_is_not_a_loop_over_its_points() -> None:
    """One of 25,000 points took seconds, and a judgement, which plays it twenty times, a minute."""
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float[1,1,16,1,257] x, float[1,1,2,1,3] w) => (float[1,1,17,1,771] y)
    { y = ConvTranspose <strides: ints = [1,3,3]> (x, w) }"""
    arrays = {"x": np.ones((1, 1, 16, 1, 257), np.float32), "w": np.ones((1, 1, 2, 1, 3), np.float32)}
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    evaluator = make_evaluator(onnx.parser.parse_model(text))
    sys.setprofile(count)
    try:
        evaluator.run(None, arrays)
    finally:
        sys.setprofile(None)
    assert calls < 2_000
