"""Prepare an ONNX model for its shadow: inline composite operators, and find the type in which each value is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from driftline.core.tensors import is_float
from driftline.programs.onnx.floats import SMALL_FLOATS, with_floats_in

# Functions of the standard whose parts may each round. Not listed: functions whose body computes in double
# (ReduceLogSumExp, AffineGrid) or overflows where implementations do not (Softplus), and those with a single rounding.
_COMPOSITIONS = (
    "Attention", "CausalConvWithState", "DynamicQuantizeLinear", "Gelu", "GroupNormalization", "HardSigmoid",
    "HardSwish", "LayerNormalization", "LinearAttention", "LogSoftmax", "MeanVarianceNormalization", "Mish",
    "NegativeLogLikelihoodLoss", "RMSNormalization", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare",
    "RotaryEmbedding", "Softmax", "SoftmaxCrossEntropyLoss", "SwiGLU", "Swish",
)  # fmt: skip


def taken_apart(model: Any) -> Any:
    """Return the model with its local functions, and the operators in `_COMPOSITIONS`, replaced by their parts."""
    from onnx import inliner

    model = inliner.inline_local_functions(model)
    _spell_out_defaults(model)
    _declare_constants(model)
    # The inliner fails on omitted arguments before the last one; such nodes stay whole.
    gaps = {node.op_type for graph in graphs(model.graph) for node in graph.node if "" in node.input}
    selected = [("", name) for name in _COMPOSITIONS if name not in gaps]
    return inliner.inline_selected_functions(model, selected, exclude=False, inline_schema_functions=True)


def _spell_out_defaults(model: Any) -> None:
    """Set missing attributes to the operator's defaults, because the inliner would leave them empty."""
    from onnx import defs

    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    for graph in graphs(model.graph):
        for node in graph.node:
            if node.domain not in ("", "ai.onnx") or node.op_type not in _COMPOSITIONS:
                continue
            given = {attribute.name for attribute in node.attribute}
            for name, attribute in defs.get_schema(node.op_type, opset, "").attributes.items():
                if name not in given and attribute.default_value.name:
                    node.attribute.append(attribute.default_value)


def _declare_constants(model: Any) -> None:
    """Declare the types of all initializers, because the inliner needs the types of a node's arguments."""
    from onnx import helper

    for graph in graphs(model.graph):
        declared = {value.name for value in (*graph.input, *graph.value_info)}
        for tensor in graph.initializer:
            if tensor.name not in declared:
                value = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
                graph.value_info.append(value)


def promoted(model: Any) -> Any:
    """Return the model with small floats replaced by float64, and without the inferred types, which the evaluator does
    not need."""
    model = with_floats_in(model, "float64", SMALL_FLOATS)
    del model.graph.value_info[:]
    return model


def inferred_types(model: Any) -> dict[str, str]:
    """Map the names of values to the float types in which the program stores them, or '' for values that are not
    floats. Values of unknown type are missing; the map is empty if shape inference fails."""
    from onnx import shape_inference

    try:
        model = shape_inference.infer_shapes(model)
    except Exception:  # models that are too large for it, or whose operators it does not know
        return {}
    types: dict[str, str] = {}
    for graph in graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            if value.type.HasField("tensor_type") and value.type.tensor_type.elem_type:
                types[value.name] = type_name(value.type.tensor_type.elem_type)
        for tensor in graph.initializer:
            types[tensor.name] = type_name(tensor.data_type)
    return types


def graphs(graph: Any) -> Iterator[Any]:
    """Iterate over a graph and all graphs inside its nodes."""
    from onnx import AttributeProto

    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from graphs(attribute.g)


def type_name(element: int) -> str:
    """Return the numpy name of an ONNX element type, or an empty string if it is neither float nor complex."""
    from onnx import helper

    try:
        name = str(helper.tensor_dtype_to_np_dtype(element).name)
    except KeyError:
        return ""
    return name if is_float(name) or name.startswith("complex") else ""
