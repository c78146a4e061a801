"""ONNX models with constants that are not of our dtypes are cut like any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from driftline.core.tensors import Array
from driftline.diagnose.reduce.cutting import keep
from driftline.diagnose.reduce.onnx_graph import evaluate_onnx, read_onnx, write_onnx
from driftline.diagnose.reduce.small_parts import OPEN, parts_of
from driftline.diagnose.reduce.values import Values

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def of_four_bits() -> bytes:
    """x @ DequantizeLinear(weights of four bits) + bias"""
    weights = helper.make_tensor("w", TensorProto.UINT4, [4, 2], [1, 2, 3, 4, 5, 6, 7, 8])
    numbers = {"scale": np.float32(0.5), "bias": np.ones(2, np.float32)}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["m"]),
        helper.make_node("Add", ["m", "bias"], ["y"]),
    ]
    shapes = {"x": [3, 4], "y": None}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    held = [weights, *(numpy_helper.from_array(np.asarray(array), name) for name, array in numbers.items())]
    graph = helper.make_graph(nodes, "four", ends[:1], ends[1:], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return bytes(model.SerializeToString())


def ran(data: bytes, *inputs: Array) -> Array:
    session = onnx.reference.ReferenceEvaluator(onnx.load_model_from_string(data))
    return np.asarray(session.run(None, dict(zip(session.input_names, inputs, strict=True)))[0])


def test_a_constant_of_four_bits(tmp_path: Path) -> None:
    data, values = of_four_bits(), Values(tmp_path)
    base = evaluate_onnx(read_onnx(data, [{"x": X}], values), values, 1)
    assert base.graph.operators == ["DequantizeLinear", "MatMul", "Add"], "the constant is counted as no operator"
    assert np.array_equal(ran(write_onnx(base.graph, values)[0], X), ran(data, X))
    alone = [part.operators for part in parts_of(base, 1)]
    assert alone == [["DequantizeLinear"], ["MatMul"], ["Add"]], "it is no part of its own"
    last = [at for at, node in enumerate(base.graph.nodes) if node.op in ("MatMul", "Add")]
    kept = keep(base, last, OPEN)
    assert kept
    written, inputs = write_onnx(kept[0], values)
    made = {leaf.number: values.load(leaf.data)[0] for leaf in kept[0].leaves if not leaf.constant}
    assert len(inputs) == len(made) == 2 and np.array_equal(ran(written, *made.values()), ran(data, X))
