"""Changes of element types, shapes, and numbers in constants."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import numpy as np

from driftline.generate.base import NoProgram
from driftline.generate.changes.model import ModelChange, chosen, constant, set_constant, typed
from driftline.generate.emit_onnx import element_type

_FLOAT = 1
_KEPT_SIZE = 4096


def retype(model: Any, rng: random.Random, *, to: str) -> None:
    """Change every float32 in the model to the type `to`. Results change with the precision."""
    new, found = element_type(to), False
    for info in model.graph.input:
        if info.type.tensor_type.elem_type == _FLOAT:
            info.type.tensor_type.elem_type, found = new, True
    for tensor in model.graph.initializer:
        if tensor.data_type == _FLOAT:
            set_constant(tensor, typed(constant(tensor), to))
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i == _FLOAT:
                attribute.i = new
            elif attribute.name == "value" and attribute.t.data_type == _FLOAT:
                set_constant(attribute.t, typed(constant(attribute.t), to))
    if not found:
        raise NoProgram("no input is float32")


def _floats(model: Any) -> list[Any]:
    return [t for t in model.graph.initializer if t.data_type in (1, 10, 11) and np.prod(t.dims) > 0]


def special_constant(model: Any, rng: random.Random) -> None:
    """Replace one number of a float constant with a special one, such as NaN, infinity or the largest number."""
    tensor = chosen(_floats(model), rng, "float constant")
    values = constant(tensor).copy()
    limits = np.finfo(values.dtype)
    special = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0, limits.max, limits.tiny, -1.0])
    values.reshape(-1)[rng.randrange(values.size)] = special
    set_constant(tensor, values)


def near_constant(model: Any, rng: random.Random) -> None:
    """Change a scalar constant that a formula fixes (0.5, the root of two) slightly or greatly."""
    scalars = [tensor for tensor in _floats(model) if np.prod(tensor.dims) == 1]
    tensor = chosen(scalars, rng, "scalar constant")
    values = constant(tensor)
    factor, offset = rng.choice([(1.001, 0.0), (1.01, 0.0), (2.0, 0.0), (-1.0, 0.0), (1.0, 1.0)])
    set_constant(tensor, typed(values.astype(np.float64) * factor + offset, values.dtype.name))


def integer_constant(model: Any, rng: random.Random) -> None:
    """Change one number of an integer constant: an axis, a size, a slice limit or a zero point."""
    tensor = chosen([t for t in model.graph.initializer if t.data_type in (2, 3, 6, 7) and np.prod(t.dims) > 0], rng,
                    "integer constant")  # fmt: skip
    values = constant(tensor).copy()
    at = rng.randrange(values.size)
    limits = np.iinfo(values.dtype)
    moved = int(values.reshape(-1)[at]) + rng.choice([-2, -1, 1, 2])
    values.reshape(-1)[at] = min(max(moved, limits.min), limits.max)
    set_constant(tensor, values)


def reshaped_constant(model: Any, rng: random.Random) -> None:
    """Give a one-element constant another number of axes, or a larger constant a leading axis."""
    tensor = chosen(_floats(model), rng, "float constant")
    values = constant(tensor)
    if values.size == 1:
        set_constant(tensor, values.reshape(rng.choice([(), (1,), (1, 1), (1, 1, 1, 1), (1, 1, 1, 1, 1)])))
    else:
        set_constant(tensor, values[np.newaxis])


def spread_constant(model: Any, rng: random.Random) -> None:
    """Replace a scalar constant with an array of the same value, in which the last element may differ."""
    scalars = [tensor for tensor in _floats(model) if np.prod(tensor.dims) == 1]
    tensor = chosen(scalars, rng, "scalar constant")
    values = constant(tensor)
    shapes = [tuple(size.dim_value for size in info.type.tensor_type.shape.dim) for info in model.graph.input]
    shape = rng.choice([s for s in shapes if s and s[-1] > 1] or [(2,)])
    spread = np.broadcast_to(values.reshape(()), shape[-rng.randint(1, len(shape)) :]).copy()
    if rng.random() < 0.7 and spread.size > 1:
        spread.reshape(-1)[-1] = typed(spread.reshape(-1)[-1].astype(np.float64) * 2 + 1, values.dtype.name)
    set_constant(tensor, spread)


def resized_input(model: Any, rng: random.Random) -> None:
    """Change the size of one axis of an input to zero, one, two or one more."""
    info = chosen([i for i in model.graph.input if i.type.tensor_type.shape.dim], rng, "input with axes")
    size = rng.choice(list(info.type.tensor_type.shape.dim))
    wanted = [n for n in (0, 1, 2, size.dim_value + 1) if n != size.dim_value]
    for other in model.graph.input:
        if _shape(other) == _shape(info) and other is not info and rng.random() < 0.7:
            other.type.tensor_type.shape.dim[list(info.type.tensor_type.shape.dim).index(size)].CopyFrom(size)
    size.dim_value = rng.choice(wanted)


def _shape(info: Any) -> list[int]:
    return [size.dim_value for size in info.type.tensor_type.shape.dim]


def constant_to_input(model: Any, rng: random.Random) -> None:
    """Turn a constant into an input."""
    from onnx import helper

    tensor = chosen([t for t in _floats(model) if np.prod(t.dims) <= _KEPT_SIZE], rng, "float constant")
    model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    model.graph.initializer.remove(tensor)


def constant_with_default(model: Any, rng: random.Random) -> None:
    """List a constant among the inputs, so that a caller may override it and it must not be folded."""
    from onnx import helper

    tensor = chosen(list(model.graph.initializer), rng, "constant")
    model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))


TENSOR_CHANGES: dict[str, ModelChange] = {
    **{to: partial(retype, to=to) for to in ("float64", "float16", "bfloat16", "int32", "int64", "uint8")},
    "special constant": special_constant,
    "near constant": near_constant,
    "integer constant": integer_constant,
    "reshaped constant": reshaped_constant,
    "spread constant": spread_constant,
    "resized input": resized_input,
    "constant to input": constant_to_input,
    "constant with default": constant_with_default,
}
