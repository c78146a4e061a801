"""Runs nodes that the player does not implement: by their function definition, or by the reference evaluator."""

from __future__ import annotations

from typing import Any

import torch

from driftline.programs.onnx.player.call import Unplayable, Value
from driftline.programs.onnx.player.literals import four_bits, tensor_from
from driftline.programs.onnx.player.torch_ops import evaluated
from driftline.programs.torch_tensors import array_from_tensor

# What comes here draws random numbers: Dropout does so in training mode only, and the player has the other one itself.
DRAWING = (
    "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
)  # fmt: skip


def function_body(node: Any, opset: int, inputs: list[Value]) -> Any | None:
    """Return the standard's definition of this operator as a function, or None if there is none for these inputs."""
    from onnx import defs, helper

    if not defs.has(node.op_type, opset, node.domain):
        return None
    schema = defs.get_schema(node.op_type, opset, node.domain)
    if schema.has_context_dependent_function:
        types = [_type_of(value, helper).SerializeToString() for value in inputs]
        versions = [v for v in schema.context_dependent_function_opset_versions if v <= opset]
        if not versions:
            return None
        body = schema.get_context_dependent_function_with_opset_version(max(versions), node.SerializeToString(), types)
    elif schema.has_function:
        body = schema.get_function_with_opset_version(max(v for v in schema.function_opset_versions if v <= opset))
    else:
        return None
    if isinstance(body, bytes):
        from onnx import FunctionProto

        if not body:
            return None
        proto = FunctionProto()
        proto.ParseFromString(body)
        return proto
    return body


def function_defaults(node: Any, opset: int) -> dict[str, Any]:
    """Return the default values of an operator's attributes."""
    from onnx import defs, helper

    declared = defs.get_schema(node.op_type, opset, node.domain).attributes
    return {
        name: helper.get_attribute_value(attribute.default_value)
        for name, attribute in declared.items()
        if attribute.default_value.name
    }


def resolved(node: Any, attributes: dict[str, Any]) -> Any:
    """Return the node with references to the attributes of the surrounding function filled in."""
    from onnx import helper

    if not any(attribute.ref_attr_name for attribute in node.attribute):
        return node
    copied = type(node)()
    copied.CopyFrom(node)
    del copied.attribute[:]
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            copied.attribute.append(attribute)
        elif attribute.name in attributes:
            copied.attribute.append(helper.make_attribute(attribute.name, attributes[attribute.name]))
    return copied


def _type_of(value: Value, helper: Any) -> Any:
    import onnx

    if not isinstance(value, torch.Tensor):
        return onnx.TypeProto()
    array = array_from_tensor(value)
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape))


def evaluate_node(node: Any, opset: int, inputs: list[Value]) -> list[Value]:
    """Run one node with ONNX's reference evaluator, as a single torch operation."""
    from onnx import helper

    from driftline.programs.onnx.evaluator import make_evaluator

    if node.op_type in DRAWING:
        raise Unplayable(f"{node.op_type} draws random numbers")
    if any(isinstance(value, list) for value in inputs):
        raise Unplayable(f"{node.op_type} of a sequence")
    if any(value is not None and four_bits(value) for value in inputs):
        raise Unplayable(f"{node.op_type} of numbers of four bits")
    names = [f"in{at}" if value is not None else "" for at, value in enumerate(inputs)]
    alone = type(node)()
    alone.CopyFrom(node)
    alone.input[:] = names
    kept = [name for name in node.output if name]
    graph = helper.make_graph(
        [alone],
        "one",
        [helper.make_value_info(name, helper.make_tensor_type_proto(1, None)) for name in names if name],
        [helper.make_value_info(name, helper.make_tensor_type_proto(1, None)) for name in kept],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
    try:
        evaluator = make_evaluator(model)
    except (NotImplementedError, RuntimeError) as error:
        raise Unplayable(f"{node.domain or 'ai.onnx'}.{node.op_type}") from error

    def run(tensors: list[torch.Tensor | None]) -> list[torch.Tensor]:
        feed = {name: array_from_tensor(t) for name, t in zip(names, tensors, strict=True) if name and t is not None}
        return [_as_tensor(made) for made in evaluator.run(None, feed)]

    results = iter(evaluated(inputs, run))
    return [next(results) if name else None for name in node.output]


def _as_tensor(made: Any) -> torch.Tensor:
    import numpy as np

    array = np.asarray(made)
    if array.dtype.kind in "OUS":
        raise Unplayable("results that are no tensors of numbers")
    return tensor_from(array)
