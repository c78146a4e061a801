"""Infers the shapes of all tensors of an ONNX graph, where possible, without loading the weights.

ONNX's own shape inference copies the whole model. Here it gets a skeleton in which every large initialiser is an input
of the same shape, so that a model of gigabytes costs as much as its nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SMALL = 64  # elements of an initialiser that is kept: sizes and axes, on which shapes depend
_MOST = 1 << 20  # numbers in vectors of which shape inference may take note

OpenSize = int | str | None  # a number, the name of a dimension, or unknown
OpenShape = tuple[OpenSize, ...]


def known_shapes(model: Any) -> dict[str, OpenShape]:
    """Return the shape of every tensor whose rank is known."""
    shapes = dict(_declared(model.graph))
    try:
        inferred = _inferred(skeleton(model))
        shapes |= {name: shape for name, shape in _declared(inferred.graph) if name not in shapes}
    except Exception:  # inference fails on models that runtimes accept: use declared shapes
        pass
    return shapes | {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}


def inferred_shapes(slim: Any) -> Iterator[tuple[str, OpenShape]]:
    """Yield names and shapes of all values of a skeleton, those of its inner graphs too."""
    graph = _inferred(slim).graph
    for each in (graph, *inner_graphs(graph)):
        yield from _declared(each)


def inner_graphs(graph: Any) -> Iterator[Any]:
    """Yield the graphs inside the nodes of a graph, such as branches and bodies of loops."""
    waiting = [graph]
    while waiting:
        for attribute in (attribute for node in waiting.pop().node for attribute in node.attribute):
            found = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
            yield from found
            waiting += found


def _inferred(slim: Any) -> Any:
    import onnx

    inferred = onnx.shape_inference.infer_shapes(slim)
    if _length_of_vectors(inferred.graph) <= _MOST:
        inferred = onnx.shape_inference.infer_shapes(slim, data_prop=True)
    return inferred


def _length_of_vectors(graph: Any) -> int:
    """Return the number of elements in all vectors of a graph. `data_prop` stores each of them, and a file of a hundred
    bytes may have a vector of billions."""
    shapes = (shape for _, shape in _declared(graph) if len(shape) == 1)
    return sum(size for (size,) in shapes if isinstance(size, int))


def _declared(graph: Any) -> Iterator[tuple[str, OpenShape]]:
    for value in (*graph.value_info, *graph.input, *graph.output):
        kind = value.type.tensor_type
        if value.type.HasField("tensor_type") and kind.HasField("shape"):
            yield value.name, tuple(_size(dim) for dim in kind.shape.dim)


def _size(dim: Any) -> OpenSize:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) or None


def skeleton(model: Any) -> Any:
    """Return the model with inputs in place of its large initialisers."""
    import onnx

    slim = onnx.ModelProto(ir_version=max(model.ir_version, 4), opset_import=model.opset_import)
    slim.functions.extend(model.functions)
    graph = slim.graph
    graph.name = "skeleton"
    graph.node.extend(model.graph.node)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    given = {value.name for value in model.graph.input}
    graph.input.extend(model.graph.input)
    for tensor in model.graph.initializer:
        if _elements(tensor) <= SMALL and tensor.data_location != onnx.TensorProto.EXTERNAL:
            graph.initializer.append(tensor)
        elif tensor.name not in given:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    return slim


def _elements(tensor: Any) -> int:
    count = 1
    for size in tensor.dims:
        count *= int(size)
    return count


def small_constants(model: Any) -> dict[str, Any]:
    """Return the small initialisers as arrays."""
    import onnx

    return {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if _elements(tensor) <= SMALL and tensor.data_location != onnx.TensorProto.EXTERNAL
    }
