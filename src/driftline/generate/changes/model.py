"""Helpers for changes: find values and types in a model, and make it valid again afterwards."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from driftline.core.tensors import Array, numpy_dtype
from driftline.core.text import first_line
from driftline.generate.base import NoProgram
from driftline.generate.emit_onnx import onnx_tensor

ModelChange = Callable[[Any, random.Random], None]


def settled(model: Any, *, types: bool = False) -> Any:
    """Return the model with the types of its results inferred again, and of all its values if `types`. Raises
    `NoProgram` if the model is no longer valid."""
    import onnx

    del model.graph.value_info[:]
    for output in model.graph.output:
        output.ClearField("type")
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
        onnx.checker.check_model(inferred)
    except Exception as error:
        raise NoProgram(f"not a valid model: {first_line(str(error), 150)}") from error
    if any(not output.type.tensor_type.elem_type for output in inferred.graph.output):
        raise NoProgram("the type of a result cannot be inferred")
    if not types:
        del inferred.graph.value_info[:]
    return inferred


def value_types(model: Any) -> dict[str, tuple[int, tuple[int, ...] | None]]:
    """Return the element type and, if known, the shape of every value of the main graph."""
    import onnx

    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    found: dict[str, tuple[int, tuple[int, ...] | None]] = {}
    for info in (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output):
        tensor = info.type.tensor_type
        known = tensor.HasField("shape") and all(size.HasField("dim_value") for size in tensor.shape.dim)
        found[info.name] = (tensor.elem_type, tuple(size.dim_value for size in tensor.shape.dim) if known else None)
    for tensor in model.graph.initializer:
        found[tensor.name] = (tensor.data_type, tuple(tensor.dims))
    return found


def interior(model: Any) -> list[str]:
    """Return the values that are computed but not returned."""
    returned = {output.name for output in model.graph.output}
    return [name for node in model.graph.node for name in node.output if name and name not in returned]


def chosen(options: list[Any], rng: random.Random, what: str) -> Any:
    """Return a random option. Raises `NoProgram` if there are none; `what` names them."""
    if not options:
        raise NoProgram(f"there is no {what}")
    return rng.choice(options)


def constant(tensor: Any) -> Array:
    from onnx import numpy_helper

    array: Array = numpy_helper.to_array(tensor)
    return array


def set_constant(tensor: Any, values: Array) -> None:
    tensor.CopyFrom(onnx_tensor(np.asarray(values), tensor.name))


def typed(values: Array, dtype: str) -> Array:
    """Cast without warnings: a number that does not fit changes, as in a converted model."""
    with np.errstate(all="ignore"):
        return values.astype(numpy_dtype(dtype))
