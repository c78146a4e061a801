"""An ONNX model with every float made a double: what the shadow of an ONNX program plays."""

from __future__ import annotations

from typing import Any

import numpy as np


def promote_to_float64(model: Any) -> Any:
    """A copy of the model in which float, float16 and bfloat16 are double everywhere: constants, casts, signatures."""
    import onnx

    promoted = onnx.ModelProto()
    promoted.CopyFrom(model)
    _promote_graph(promoted.graph)
    for function in promoted.functions:
        for node in function.node:
            _promote_node(node)
    return promoted


def _small_floats() -> tuple[int, ...]:
    from onnx import TensorProto

    return (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def _promote_graph(graph: Any) -> None:
    from onnx import TensorProto

    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type in _small_floats():
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in graph.initializer:
        _promote_tensor(tensor)
    for node in graph.node:
        _promote_node(node)


def _promote_tensor(tensor: Any) -> None:
    from onnx import numpy_helper

    if tensor.data_type in _small_floats():
        array = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


# attributes that hold a data type as an integer
_TYPE_ATTRIBUTES = ("to", "dtype", "stash_type", "softmax_precision", "output_dtype")


def _promote_node(node: Any) -> None:
    from onnx import AttributeProto, TensorProto, numpy_helper

    for attribute in node.attribute:
        if attribute.type == AttributeProto.INT and attribute.name in _TYPE_ATTRIBUTES:
            if attribute.i in _small_floats():
                attribute.i = TensorProto.DOUBLE
        elif attribute.type == AttributeProto.TENSOR:
            _promote_tensor(attribute.t)
        elif attribute.type == AttributeProto.GRAPH:
            _promote_graph(attribute.g)
        elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            single = attribute.name == "value_float"
            value = np.array(attribute.f if single else list(attribute.floats), np.float32).astype(np.float64)
            attribute.CopyFrom(
                AttributeProto(name="value", type=AttributeProto.TENSOR, t=numpy_helper.from_array(value))
            )
