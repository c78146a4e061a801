"""Converts an ONNX model to another float type: constants, casts and signatures.

Used to run the shadow (the float64 copy of a model that the oracle computes), and by experiments that test whether a
failure occurs in another type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from driftline.core.tensors import numpy_dtype

SMALL_FLOATS = ("float32", "float16", "bfloat16")
# attributes that hold a data type as an integer
_TYPE_ATTRIBUTES = ("to", "dtype", "stash_type", "softmax_precision", "output_dtype")


def with_floats_in(model: Any, dtype: str, of: tuple[str, ...]) -> Any:
    """Return a copy of the model with the float types `of` replaced by `dtype` everywhere."""
    import onnx

    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    _Change(dtype, of).apply(changed)
    return changed


class _Change:
    def __init__(self, dtype: str, of: tuple[str, ...]) -> None:
        from onnx import helper

        self._dtype = numpy_dtype(dtype)
        self._type = helper.np_dtype_to_tensor_dtype(self._dtype)
        self._of = {helper.np_dtype_to_tensor_dtype(numpy_dtype(name)) for name in of}

    def apply(self, model: Any) -> None:
        self._graph(model.graph)
        for function in model.functions:
            for node in function.node:
                self._node(node)

    def _graph(self, graph: Any) -> None:
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.tensor_type.elem_type in self._of:
                value.type.tensor_type.elem_type = self._type
        for tensor in graph.initializer:
            self._tensor(tensor)
        for node in graph.node:
            self._node(node)

    def _tensor(self, tensor: Any) -> None:
        from onnx import numpy_helper

        if tensor.data_type in self._of:
            with np.errstate(over="ignore"):
                array = numpy_helper.to_array(tensor).astype(self._dtype)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))

    def _node(self, node: Any) -> None:
        from onnx import AttributeProto, TensorProto, numpy_helper

        for attribute in node.attribute:
            if attribute.type == AttributeProto.INT and attribute.name in _TYPE_ATTRIBUTES:
                if attribute.i in self._of:
                    attribute.i = self._type
            elif attribute.type == AttributeProto.TENSOR:
                self._tensor(attribute.t)
            elif attribute.type == AttributeProto.GRAPH:
                self._graph(attribute.g)
            elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
                if TensorProto.FLOAT not in self._of:
                    continue
                single = attribute.name == "value_float"
                value = np.array(attribute.f if single else list(attribute.floats), np.float32).astype(self._dtype)
                attribute.CopyFrom(
                    AttributeProto(name="value", type=AttributeProto.TENSOR, t=numpy_helper.from_array(value))
                )
