"""Visits the nodes of an ONNX graph in order, with the bodies of Loop, If and Scan and the model's own functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from driftline.programs.onnx.flow import Walk
from driftline.programs.onnx.shapes import SMALL
from driftline.programs.onnx.uses import visit

Functions = Mapping[tuple[str, str], Any]  # a model's own functions, by domain and name


def walk_graph(walk: Walk, nodes: Sequence[Any], functions: Functions) -> None:
    """Visit the nodes; graphs inside them see the tensors of the outer ones."""
    for node in nodes:
        function = functions.get((node.domain, node.op_type))
        if function is not None:
            _walk_call(walk, node, function, functions)
            continue
        visit(walk, node)
        for attribute in node.attribute:
            for body in [attribute.g] if attribute.HasField("g") else list(attribute.graphs):
                _walk_body(walk, node, body, functions)


def _walk_body(walk: Walk, node: Any, body: Any, functions: Functions) -> None:
    """Visit the graph that a node holds, such as the body of a Loop."""
    import onnx

    for tensor in body.initializer:
        walk.weights.add(tensor.name)
        walk.shapes[tensor.name] = tuple(tensor.dims)
        if int(np.prod(tensor.dims)) <= SMALL:
            walk.constants[tensor.name] = onnx.numpy_helper.to_array(tensor)
    if node.op_type in ("Loop", "Scan"):
        skipped = 0 if node.op_type == "Scan" else 2  # the count and the condition
        given = list(node.input) if node.op_type == "Scan" else list(node.input)[2:]
        for inner, outer in zip(list(body.input)[skipped:], given, strict=False):
            walk.alias(inner.name, outer)
    walk_graph(walk, body.node, functions)


def _walk_call(walk: Walk, node: Any, function: Any, functions: Functions) -> None:
    """Visit the body of a function of the model, with the names of its tensors made unique."""
    mark = f"{node.output[0]}::"
    inner = [type(node).FromString(n.SerializeToString()) for n in function.node]
    for each in inner:
        each.input[:] = [mark + name if name else "" for name in each.input]
        each.output[:] = [mark + name if name else "" for name in each.output]
    for formal, actual in zip(function.input, node.input, strict=False):
        walk.alias(mark + formal, actual)
    walk_graph(walk, inner, functions)
    for formal, actual in zip(function.output, node.output, strict=False):
        walk.alias(actual, mark + formal)
