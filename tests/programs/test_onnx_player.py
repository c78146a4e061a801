"""The player of ONNX models on torch, held against the standard's own node tests and against ONNX Runtime."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, TypeProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.external_data_helper import set_external_data

from driftline.programs.onnx.player.call import Unplayable
from driftline.programs.onnx.player.literals import tensor_from
from driftline.programs.onnx.player.player import OnnxPlayer
from driftline.programs.torch_tensors import array_from_tensor

# Element types that torch does not have, strings, pictures, and draws of random numbers.
_OUT_OF_REACH = ("FNUZ", "UINT2", "INT2", "FLOAT4", "float4", "E8M0", "e8m0", "int2", "string", "str", "image_decoder",
                 "bernoulli", "random", "regex", "label_encoder", "_training_dropout", "training_dropout")  # fmt: skip
# The test's own numbers are rounded to four digits, or the standard's evaluator, which plays them here, is off.
_COARSE = {
    "test_averagepool_2d_ceil_last_window_starts_on_pad", "test_gridsample_bicubic", "test_roialign_aligned_false",
    "test_roialign_aligned_true",
}  # fmt: skip
_BEYOND = {"test_scan_sum"} | {f"test_castlike_FLOAT{w}_to_{s}INT4" for w in ("", "16") for s in ("", "U")}


def test_standard_node_tests() -> None:
    """Every operator as the standard tests it. Those that it defines by others are in the list once, by themselves."""
    outcomes: Counter[str] = Counter()
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for test in load_model_tests(kind="node"):
            if (
                test.name.endswith("expanded")
                or "_expanded_" in test.name
                or any(w in test.name for w in _OUT_OF_REACH)
            ):
                continue
            given, expected = ([_plain(value) for value in side] for side in test.data_sets[0])
            try:
                results = _play(test.model, given)
            except Unplayable:
                outcomes["unplayable"] += 1
                if test.name not in _BEYOND:
                    wrong.append(test.name)
                continue
            except Exception as error:
                if test.name not in _BEYOND:
                    wrong.append(f"{test.name} ({type(error).__name__}: {error})")
                continue
            coarse = test.name in _COARSE
            same = all(_close(got, want, 1e-2 if coarse else 1e-4) for got, want in zip(results, expected, strict=True))
            outcomes["same"] += same
            if not same:
                wrong.append(test.name)
    assert wrong == []
    assert outcomes["same"] > 1000


def _plain(value: Any) -> Any:
    if isinstance(value, list) or value is None:
        return value
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def _play(model: Any, given: list[Any]) -> list[Any]:
    player = OnnxPlayer(model)
    feed = {value.name: _tensor(array) for value, array in zip(model.graph.input, given, strict=False)}
    return [player.run(feed)[value.name] for value in model.graph.output]


def _tensor(value: Any) -> Any:
    if value is None:
        return None
    return [tensor_from(item) for item in value] if isinstance(value, list) else tensor_from(value)


def _close(got: Any, want: Any, tolerance: float) -> bool:
    if isinstance(want, list):
        return len(got) == len(want) and all(_close(g, w, tolerance) for g, w in zip(got, want, strict=True))
    if want is None:
        return got is None
    array = array_from_tensor(got)
    want = want.astype(array.dtype) if want.dtype.name in ("int4", "uint4") else want
    if array.shape != want.shape or array.dtype != want.dtype:
        return False
    if array.dtype.kind in "iub":
        return bool(np.array_equal(array, want))
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    tolerance = max(tolerance, 1e-2) if array.dtype.itemsize < 4 else tolerance
    return bool(np.allclose(array.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance / 10, equal_nan=True))


# -- contrib operators -------------------------------------------------------------------------------------------------

_RNG = np.random.default_rng(0)


def _normal(*shape: int) -> Any:
    return _RNG.standard_normal(shape).astype(np.float32)


def _codes(*shape: int) -> Any:
    return _RNG.integers(0, 256, shape, np.uint8)


def _quantum(scale: float, zero: int) -> tuple[Any, Any]:
    return np.array(scale, np.float32), np.array(zero, np.uint8)


_TABLE = np.arange(8, dtype=np.float32)[:, None] / 4.0 ** np.arange(4, dtype=np.float32)
_WIDE_TABLE = np.arange(8, dtype=np.float32)[:, None] / 2.0 ** np.arange(8, dtype=np.float32)
CONTRIB: dict[str, tuple[list[Any], dict[str, Any], int]] = {
    "Gelu": ([_normal(2, 3)], {}, 1),
    "FastGelu": ([_normal(2, 3), _normal(3)], {}, 1),
    "BiasGelu": ([_normal(2, 3), _normal(3)], {}, 1),
    "QuickGelu": ([_normal(2, 3)], {"alpha": 1.702}, 1),
    "FusedMatMul": ([_normal(2, 4, 3), _normal(2, 4, 5)], {"transA": 1, "alpha": 0.5}, 1),
    "SkipLayerNormalization": ([_normal(2, 3, 8), _normal(2, 3, 8), _normal(8), _normal(8), _normal(8)], {}, 1),
    "SkipSimplifiedLayerNormalization": ([_normal(2, 3, 8), _normal(2, 3, 8), _normal(8)], {"epsilon": 1e-5}, 1),
    "Attention": (
        [_normal(2, 4, 8), _normal(8, 24), _normal(24), np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)],
        {"num_heads": 2},
        1,
    ),
    "MultiHeadAttention": ([_normal(2, 4, 8), _normal(2, 5, 8), _normal(2, 5, 8), _normal(24)], {"num_heads": 2}, 1),
    "RotaryEmbedding": (
        [_normal(2, 3, 16), np.array([[0, 1, 2], [1, 2, 3]], np.int64), np.cos(_TABLE), np.sin(_TABLE)],
        {},
        1,
    ),
    "GroupQueryAttention": (
        [_normal(1, 4, 64), _normal(1, 4, 32), _normal(1, 4, 32), _normal(1, 2, 0, 16), _normal(1, 2, 0, 16),
         np.array([3], np.int32), np.array(4, np.int32), np.cos(_WIDE_TABLE), np.sin(_WIDE_TABLE)],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
        3,
    ),
    "MatMulNBits": (
        [_normal(3, 32), _RNG.integers(0, 256, (4, 2, 8), np.uint8), np.abs(_normal(4, 2))],
        {"K": 32, "N": 4, "bits": 4, "block_size": 16},
        1,
    ),
    "DynamicQuantizeMatMul": (
        [_normal(3, 8), _RNG.integers(-100, 100, (8, 4)).astype(np.int8), np.array(0.02, np.float32)],
        {},
        1,
    ),
    "FusedConv": ([_normal(1, 2, 5, 5), _normal(3, 2, 3, 3), _normal(3)], {"activation": "Relu"}, 1),
    "FusedGemm": (
        [_normal(2, 3), _normal(3, 4), _normal(4)], {"activation": "LeakyRelu", "activation_alpha": 0.2}, 1
    ),
    "MatMulIntegerToFloat": (
        [_codes(3, 8), _codes(8, 4), np.float32([0.1]), np.float32([0.02]), np.uint8([7]), np.uint8([100])], {}, 1
    ),
    "QLinearAdd": ([_codes(2, 3), *_quantum(0.1, 9), _codes(2, 3), *_quantum(0.2, 120), *_quantum(0.3, 60)], {}, 1),
    "QLinearMul": ([_codes(2, 3), *_quantum(0.1, 9), _codes(2, 3), *_quantum(0.2, 120), *_quantum(3.0, 60)], {}, 1),
    "QLinearSigmoid": ([_codes(2, 3), *_quantum(0.05, 128), *_quantum(1 / 256, 0)], {}, 1),
    "QLinearLeakyRelu": ([_codes(2, 3), *_quantum(0.1, 128), *_quantum(0.1, 60)], {"alpha": 0.1}, 1),
    "EmbedLayerNormalization": (
        [np.array([[1, 4, 2]], np.int32), np.array([[0, 1, 0]], np.int32), _normal(6, 8), _normal(4, 8), _normal(2, 8),
         _normal(8), _normal(8), np.array([[1, 1, 0]], np.int32)],
        {"epsilon": 1e-5},
        2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRIB)
def test_contrib_operators_mean_what_they_mean_to_onnxruntime(name: str) -> None:
    arrays, attributes, results = CONTRIB[name]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    _hold_against_onnxruntime(name, arrays, attributes, results, opsets, "com.microsoft")


def _hold_against_onnxruntime(
    operator: str, arrays: list[Any], attributes: dict[str, Any], results: int, opsets: list[Any], domain: str
) -> None:
    import onnxruntime

    inputs = [
        helper.make_tensor_value_info(f"x{at}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for at, array in enumerate(arrays)
    ]
    outputs = [helper.make_value_info(f"y{at}", TypeProto()) for at in range(results)]
    names = [value.name for value in inputs], [value.name for value in outputs]
    node = helper.make_node(operator, *names, domain=domain, **attributes)
    graph = helper.make_graph([node], operator, inputs, outputs)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, {f"x{at}": array for at, array in enumerate(arrays)})
    for got, want in zip(_play(model, arrays), expected, strict=True):
        np.testing.assert_allclose(array_from_tensor(got), want, rtol=1e-3, atol=1e-3)


def test_weights_in_files_are_mapped(tmp_path: Path) -> None:
    """Initialisers and constants of nodes alike: exporters write both."""
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    node = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(weights, "inner"))
    graph = helper.make_graph(
        [node, helper.make_node("Add", ["c", "w"], ["y"])],
        "apart",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    (tmp_path / "weights").write_bytes(weights.tobytes())
    for tensor in (model.graph.initializer[0], model.graph.node[0].attribute[0].t):
        set_external_data(tensor, "weights", offset=0, length=weights.nbytes)
        tensor.ClearField("raw_data")
    result = OnnxPlayer(model, tmp_path).run({})["y"]
    assert np.array_equal(result.numpy(), 2 * weights)


def test_constants_of_functions_may_lie_in_files(tmp_path: Path) -> None:
    weights = np.arange(6, dtype=np.float32)
    constant = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(weights, "inner"))
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    add = helper.make_node("Add", ["a", "c"], ["b"])
    function = helper.make_function("own", "Shift", ["a"], ["b"], [constant, add], opsets[:1])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [6]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Shift", ["x"], ["y"], domain="own")], "main", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=opsets, functions=[function])
    (tmp_path / "weights").write_bytes(weights.tobytes())
    tensor = model.functions[0].node[0].attribute[0].t
    set_external_data(tensor, "weights", offset=0, length=weights.nbytes)
    tensor.ClearField("raw_data")
    result = OnnxPlayer(model, tmp_path).run({"x": tensor_from(weights)})["y"]
    assert np.array_equal(result.numpy(), 2 * weights)


def test_a_loop_without_a_condition() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["number"], ["row"])],
        "body",
        [helper.make_tensor_value_info("number", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("row", TensorProto.INT64, [])],
    )  # fmt: skip
    node = helper.make_node("Loop", ["count", ""], ["y"], body=body)
    count = helper.make_tensor_value_info("count", TensorProto.INT64, [])
    graph = helper.make_graph([node], "main", [count], [helper.make_tensor_value_info("y", TensorProto.INT64, [None])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    assert _play(model, [np.array(3)])[0].tolist() == [0, 1, 2]


def _one_node(operator: str, inputs: dict[str, Any], domain: str = "", **attributes: Any) -> Any:
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    node = helper.make_node(operator, list(inputs), ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], operator, values, [helper.make_value_info("y", TypeProto())])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    (result,) = _play(helper.make_model(graph, opset_imports=opsets), list(inputs.values()))
    return array_from_tensor(result)


def test_quantisation_to_eight_bit_floats_saturates() -> None:
    import ml_dtypes

    inputs = {
        "x": np.array([1e6, -1e6, 3], np.float32),
        "scale": np.array(1, np.float32),
        "zero": np.zeros((), ml_dtypes.float8_e5m2),
    }
    assert _one_node("QuantizeLinear", inputs).astype(np.float32).tolist() == [57344, -57344, 3]


def test_a_scale_for_each_row_of_a_quantised_product() -> None:
    a = np.array([[10, 10], [10, 10]], np.uint8)
    scales, one, zero = np.array([1, 2], np.float32), np.array(1, np.float32), np.array(0, np.uint8)
    zeros = np.zeros(2, np.uint8)
    inputs = {"a": a, "sa": scales, "za": zeros, "b": a // 10, "sb": one, "zb": zero, "sy": one, "zy": zero}
    assert _one_node("QLinearMatMul", inputs).tolist() == [[20, 20], [40, 40]]


def test_an_operator_with_another_meaning_is_not_played() -> None:
    """An input that was left out must not move the others up, and a licence to round must not be overlooked."""
    scale, zero = _quantum(0.1, 3)
    inputs = {"a": _codes(2), "sa": scale, "za": zero, "b": _codes(2), "sb": scale, "zb": zero, "sy": scale}
    with pytest.raises(Unplayable, match="zero points"):
        _one_node("QLinearAdd", inputs, "com.microsoft")
    arrays, attributes, _ = CONTRIB["MatMulNBits"]
    named = dict(zip("abs", arrays, strict=True))
    with pytest.raises(Unplayable, match="accuracy_level"):
        _one_node("MatMulNBits", named, "com.microsoft", **attributes, accuracy_level=4)


# -- older opsets ------------------------------------------------------------------------------------------------------

_X = _normal(2, 3, 4, 4)
OLDER: dict[str, tuple[int, str, list[Any], dict[str, Any], int]] = {
    "Clip": (7, "Clip", [_X], {"min": -0.5, "max": 0.5}, 1),
    "Slice": (7, "Slice", [_X], {"starts": [1, -3], "ends": [9, -1], "axes": [1, 2]}, 1),
    "Pad": (7, "Pad", [_X], {"pads": [0, 0, 1, 2, 0, 0, 0, 1], "mode": "reflect"}, 1),
    "Squeeze": (7, "Squeeze", [_normal(2, 1, 3)], {"axes": [1]}, 1),
    "Unsqueeze": (7, "Unsqueeze", [_normal(2, 3)], {"axes": [0, 3]}, 1),
    "Softmax": (7, "Softmax", [_X], {"axis": 1}, 1),
    "LogSoftmax": (7, "LogSoftmax", [_X], {}, 1),
    "Hardmax": (7, "Hardmax", [_X], {"axis": 2}, 1),
    "Split": (7, "Split", [_X], {"axis": 2, "split": [1, 3]}, 2),
    "ReduceMean": (7, "ReduceMean", [_X], {"axes": [1, -1], "keepdims": 0}, 1),
    "TopK": (7, "TopK", [_normal(3, 5)], {"k": 2}, 2),
    "BatchNormalization": (7, "BatchNormalization", [_X, *(np.abs(_normal(3)) for _ in range(4))], {}, 1),
    "Gemm": (7, "Gemm", [_normal(2, 3), _normal(4, 3), _normal(4)], {"transB": 1, "alpha": 0.5}, 1),
    "Upsample": (9, "Upsample", [_X, np.array([1, 1, 2, 2], np.float32)], {"mode": "linear"}, 1),
    "Upsample by attribute": (7, "Upsample", [_X], {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 3.0]}, 1),
    "Resize": (10, "Resize", [_X, np.array([1, 1, 0.5, 1.5], np.float32)], {"mode": "nearest"}, 1),
    "Scatter": (9, "Scatter", [_normal(3, 3), np.array([[0, 2]]), _normal(1, 2)], {"axis": 1}, 1),
    "MaxPool": (8, "MaxPool", [_X], {"kernel_shape": [2, 2], "strides": [2, 1], "pads": [1, 0, 0, 1]}, 1),
    "AveragePool": (7, "AveragePool", [_X], {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER"}, 1),
    "Dropout": (7, "Dropout", [_X], {"ratio": 0.5}, 1),
    "LSTM": (7, "LSTM", [_normal(5, 2, 3), _normal(2, 16, 3), _normal(2, 16, 4), _normal(2, 32)],
             {"hidden_size": 4, "direction": "bidirectional"}, 3),
    "GRU": (7, "GRU", [_normal(5, 2, 3), _normal(1, 12, 3), _normal(1, 12, 4), _normal(1, 24)],
            {"hidden_size": 4, "linear_before_reset": 1, "direction": "reverse"}, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", OLDER)
def test_older_opsets_mean_what_they_mean_to_onnxruntime(name: str) -> None:
    opset, operator, arrays, attributes, results = OLDER[name]
    _hold_against_onnxruntime(operator, arrays, attributes, results, [helper.make_opsetid("", opset)], "")
