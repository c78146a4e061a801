"""A small classifier written as an ONNX graph: no torch, no exporter, no one to blame but the compiler."""

import numpy as np
from onnx import helper, numpy_helper


def program(dtype):
    rng = np.random.default_rng(9)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weights = {
        "w1": rng.standard_normal((24, 32)) / 5,
        "b1": rng.standard_normal(32),
        "w2": rng.standard_normal((32, 6)) / 5,
        "b2": rng.standard_normal(6),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["linear1"]),
        helper.make_node("Tanh", ["linear1"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "w2"], ["product"]),
        helper.make_node("Add", ["product", "b2"], ["linear2"]),
        helper.make_node("Softmax", ["linear2"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", element, [5, 24])],
        [helper.make_tensor_value_info("y", element, [5, 6])],
        [numpy_helper.from_array(value.astype(dtype), name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 8  # what the oldest runtimes still load
    return model, {"x": rng.standard_normal((5, 24)).astype(dtype)}


def float32():
    return program(np.float32)


def float64():
    return program(np.float64)


def float16():
    return program(np.float16)
