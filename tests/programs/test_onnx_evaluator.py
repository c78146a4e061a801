"""The reference evaluator is a witness: where it is wrong, it is set right."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnx.parser
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from driftline.programs.onnx.evaluator import make_evaluator


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


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("opset", [10, 13, 19, 21])
def test_quotients_beyond_int32_saturate_when_quantised(dtype: str, opset: int) -> None:
    if dtype == "float16" and opset < 19:
        pytest.skip("QuantizeLinear of float16 begins with opset 19")
    kind = TensorProto.FLOAT if dtype == "float32" else TensorProto.FLOAT16
    x = np.array([7.2e13, -1.4e13, np.inf, -np.inf, 0.0625, -8.0], "float32") if dtype == "float32" else None
    x = np.array([65000, -65000, np.inf, -np.inf, 6e-8, -6e-6], dtype) if x is None else x
    scale = np.array(0.03125 if dtype == "float32" else 6e-8, dtype)
    graph = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, [6])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [6])],
        [numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(np.array(131, "uint8"), "zero")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    (y,) = make_evaluator(model).run(None, {"x": x})
    right = np.clip(np.rint(x.astype(np.float64) / float(scale)) + 131, 0, 255)
    assert y.dtype == np.uint8
    np.testing.assert_array_equal(y[:5], right[:5])


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
def test_before_opset_13_the_axes_from_the_given_one_on_are_one(operator: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    text = f'<ir_version: 6, opset_import: ["": 11]> g (float[2,3,4] x) => (float[2,3,4] y) {{ y = {operator}(x) }}'
    (y,) = make_evaluator(onnx.parser.parse_model(text)).run(None, {"x": x})
    rows = torch.from_numpy(x).reshape(2, 12)
    right = {
        "Softmax": rows.softmax(1),
        "LogSoftmax": rows.log_softmax(1),
        "Hardmax": torch.nn.functional.one_hot(rows.argmax(1), 12).float(),
    }[operator]
    np.testing.assert_allclose(y, right.reshape(2, 3, 4).numpy(), rtol=1e-5)


def run(text: str, **arrays: Any) -> list[Any]:
    """The outputs of a graph in ONNX's text form, in opset 18."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> g {text}')
    found: list[Any] = make_evaluator(model).run(None, {name: np.asarray(array) for name, array in arrays.items()})
    return found


@pytest.mark.parametrize("sizes", [(4,), (3, 4), (2, 3, 4)])
def test_a_global_pool_takes_the_maximum_over_all_spatial_axes(sizes: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, *sizes)).astype(np.float32)
    shape, ones = ",".join(map(str, x.shape)), ",".join("1" for _ in sizes)
    (y,) = run(f"(float[{shape}] x) => (float[2,3,{ones}] y) {{ y = GlobalMaxPool(x) }}", x=x)
    np.testing.assert_array_equal(y, x.max(tuple(range(2, x.ndim)), keepdims=True))


@pytest.mark.parametrize(
    ("directions", "expected"),
    [("", [1, 2, 4]), (", scan_input_directions=[1]", [3, 4, 4]), (", scan_output_directions=[1]", [4, 2, 1])],
)
def test_a_scan_over_the_numbers_of_a_vector_gives_numbers(directions: str, expected: list[int]) -> None:
    body = "body = b (float a, float e) => (float c, float d) { c = Add(a, e) d = Identity(c) }"
    text = (
        f"(float s, float[3] x) => (float t, float[3] y) {{ t, y = Scan<num_scan_inputs=1{directions}, {body}>(s, x) }}"
    )
    total, partial = run(text, s=np.float32(1), x=np.arange(3, dtype=np.float32))
    assert total == 4 and partial.tolist() == expected


def test_a_scan_may_go_along_other_axes() -> None:
    body = "body = b (float[2] a, float[2] e) => (float[2] c, float[2] d) { c = Add(a, e) d = Identity(c) }"
    axes = "scan_input_axes=[1], scan_output_axes=[1]"
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    text = "(float[2] s, float[2,3] x) => (float[2] t, float[2,3] y)"
    total, partial = run(f"{text} {{ t, y = Scan<num_scan_inputs=1, {axes}, {body}>(s, x) }}", s=np.zeros(2, "f"), x=x)
    np.testing.assert_array_equal(partial, np.cumsum(x, 1))
    np.testing.assert_array_equal(total, x.sum(1))


def test_an_optional_holds_a_tensor_or_nothing() -> None:
    x = np.arange(3, dtype=np.float32)
    text = "(float[3] x) => (float[3] y, bool h) { o = Optional(x) h = OptionalHasElement(o)"
    negated, has = run(f"{text} v = OptionalGetElement(o) y = Neg(v) }}", x=x)
    assert negated.tolist() == [0, -1, -2] and has
    assert not run("() => (bool h) { o = Optional<type = float[3]>() h = OptionalHasElement(o) }")[0]


@pytest.mark.parametrize(("operator", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_operators_clip_what_goes_into_their_activations(operator: str, gates: int) -> None:
    random = np.random.default_rng(0)
    w, r = (random.standard_normal((1, 5 * gates, size)).astype(np.float32) for size in (3, 5))
    x = np.zeros((1, 2, 3), np.float32)
    weights = f"float[1,{5 * gates},3] w, float[1,{5 * gates},5] r, float[1,{10 * gates}] b"
    text = f"(float[1,2,3] x, {weights}) => (float[1,2,5] h)"
    bias = np.full((1, 10 * gates), 40.0, np.float32)
    (plain,) = run(f"{text} {{ _, h = {operator}<hidden_size=5>(x, w, r, b) }}", x=x, w=w, r=r, b=bias)
    (clipped,) = run(f"{text} {{ _, h = {operator}<hidden_size=5, clip=0.5>(x, w, r, b) }}", x=x, w=w, r=r, b=bias)
    gate, state = 1 / (1 + np.exp(-0.5)), np.tanh(0.5)
    # from a state of zeros: tanh; (1 - gate) tanh; gate tanh(gate tanh)
    expected = {"RNN": state, "GRU": (1 - gate) * state, "LSTM": gate * np.tanh(min(gate * state, 0.5))}[operator]
    np.testing.assert_allclose(clipped, np.full((1, 2, 5), expected), rtol=1e-6)
    assert not np.allclose(plain, clipped)
