"""Infers the types of all values of an ONNX model, for open sizes or for inputs of given shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driftline.programs.onnx.shapes import skeleton


def value_types(model: Any, shapes: Mapping[str, tuple[int, ...]] | None = None) -> dict[str, Any]:
    """Return the TypeProto of each value of the main graph by name; with `shapes`, for inputs of these shapes."""
    import onnx

    light = skeleton(model)
    for value in light.graph.input:
        if shapes and value.name in shapes:
            dims = value.type.tensor_type.shape.dim
            for dim, size in zip(dims, shapes[value.name], strict=False):
                dim.ClearField("dim_param")
                dim.dim_value = size
    if shapes:  # types that were inferred for open sizes would conflict
        del light.graph.value_info[:]
        for value in light.graph.output:
            value.type.tensor_type.ClearField("shape")
    try:
        light = onnx.shape_inference.infer_shapes(light, data_prop=True)
    except Exception:  # a broken model: use the declared types only
        light = model
    return {v.name: v.type for v in (*light.graph.input, *light.graph.value_info, *light.graph.output)}
