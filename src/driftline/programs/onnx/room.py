"""Finds the largest value that an ONNX model computes, from shapes alone.

A file of a hundred bytes can expand one number to gigabytes. Without this look, it would be computed until `--memory`
ends the worker, after a minute.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from driftline.core.tensors import TensorSpec
from driftline.programs.onnx.shapes import inferred_shapes, inner_graphs, skeleton


def largest_value(model: Any) -> TensorSpec | None:
    """Return the largest value that nodes of a model compute, whose shape is known, or `None`. Open sizes count as 1.

    Inputs and weights are left out: the file holds the weights, and the user chooses the inputs.
    """
    given = {value.name for value in model.graph.input} | {tensor.name for tensor in model.graph.initializer}
    found = [spec for spec in _values(model) if spec.name not in given]
    return max(found, key=lambda spec: math.prod(spec.shape), default=None)


def _values(model: Any) -> Iterator[TensorSpec]:
    try:
        slim = skeleton(model)
        if slim.functions:
            import onnx.inliner

            slim = onnx.inliner.inline_local_functions(slim)
        _close_sizes(slim.graph)
        for inner in inner_graphs(slim.graph):
            inner.initializer.extend(slim.graph.initializer)  # inference does not look for sizes outside a graph
        shapes = inferred_shapes(slim)
    except Exception:  # shape inference gives up on models that runtimes take
        return
    for name, shape in shapes:
        yield TensorSpec(name, "float64", tuple(max(1, size) if isinstance(size, int) else 1 for size in shape))


def _close_sizes(graph: Any) -> None:
    """Set the open sizes of all inputs to 1, so that sizes that are computed from them are known."""
    for value in graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                dim.dim_value = 1
