"""Validates models of unknown origin before other code reads them: protobuf accepts much that no model may hold.

Each kind of damage gets a sentence here, before any other code meets the model: names that are not text, sizes that
cannot be, weights that are not there, functions that call themselves or expand without end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from driftline.core.errors import DriftlineError
from driftline.core.tensors import DTYPES, MOST_AXES
from driftline.programs.onnx.file import is_external, tensors

MOST_NODES = 1_000_000  # with the bodies of functions in the place of their calls
_EXPORT = "Export it again."


def require_sound(model: Any, name: str) -> None:
    """Raise an error with one sentence if a model is damaged."""
    for text in _names(model):
        if isinstance(text, bytes):  # protobuf returns bytes for text that is not UTF-8
            raise DriftlineError(f"{name} has names that are not text, such as {text[:40]!r}. {_EXPORT}")
    for tensor in tensors(model):
        _require_tensor(tensor, name)
    for graph in _graphs([model.graph], _own_nodes(model)):
        if len(graph.sparse_initializer):
            raise DriftlineError(f"{name} has sparse weights, which Driftline cannot read. Export it with dense ones.")
    _require_end(model, name)


def _require_tensor(tensor: Any, name: str) -> None:
    import onnx

    said = f"{name}: the weights {tensor.name[:60]!r}"
    if any(size < 0 for size in tensor.dims) or len(tensor.dims) > MOST_AXES:
        raise DriftlineError(f"{said} have a shape that cannot be. {_EXPORT}")
    try:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except (KeyError, TypeError) as error:
        raise DriftlineError(
            f"{said} have the element type {tensor.data_type}, which this onnx does not know. {_EXPORT}"
        ) from error
    count = math.prod(tensor.dims)
    if tensor.raw_data and dtype.itemsize * count > len(tensor.raw_data) * _per_byte(dtype.name):
        raise DriftlineError(f"{said} are cut short: {count} elements in {len(tensor.raw_data)} bytes. {_EXPORT}")
    if not tensor.raw_data and not is_external(tensor) and tensor.data_location != onnx.TensorProto.EXTERNAL:
        held = max(len(getattr(tensor, field)) for field in _FIELDS)
        if count > held * 8:  # several elements to an entry, at most
            raise DriftlineError(f"{said} are cut short: {count} elements, of which {held} are there. {_EXPORT}")


_FIELDS = ("float_data", "int32_data", "int64_data", "uint64_data", "double_data", "string_data")


def _per_byte(dtype: str) -> int:
    return 4 if dtype.endswith("int2") else 2 if "int4" in dtype or "float4" in dtype else 1


def require_input(value: Any) -> str:
    """Return the dtype of an input. Raises if Driftline cannot feed it."""
    import onnx

    tensor, said = value.type.tensor_type, f"Input {value.name!r}"
    if tensor.elem_type == onnx.TensorProto.STRING:
        raise DriftlineError(f"{said} takes text, and Driftline feeds numbers only. Cut the model behind it.")
    try:
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name)
    except (KeyError, TypeError) as error:
        raise DriftlineError(
            f"{said} has the element type {tensor.elem_type}, which this onnx does not know. {_EXPORT}"
        ) from error
    if dtype not in DTYPES:
        raise DriftlineError(f"{said} has the element type {dtype}, which Driftline cannot feed.")
    sizes = [dim.dim_value for dim in tensor.shape.dim if dim.HasField("dim_value")]
    if any(size < -1 for size in sizes) or len(tensor.shape.dim) > MOST_AXES:
        raise DriftlineError(
            f"{said} has a shape that cannot be: sizes are 0 or more, and there are at most {MOST_AXES}. {_EXPORT}"
        )
    return dtype


def _own_nodes(model: Any) -> list[Any]:
    return [node for function in model.functions for node in function.node]


def _graphs(graphs: Iterable[Any], nodes: Iterable[Any] = ()) -> Iterator[Any]:
    """Yield graphs, and all graphs inside their nodes and inside `nodes`."""
    waiting = [*graphs, *(inner for node in nodes for inner in _inner(node))]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += [inner for node in graph.node for inner in _inner(node)]


def _inner(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _names(model: Any) -> Iterator[Any]:
    yield model.graph.name
    for opset in model.opset_import:
        yield opset.domain
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output)
    for graph in _graphs([model.graph], _own_nodes(model)):
        for value in (*graph.input, *graph.output, *graph.value_info):
            yield value.name
            yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
        yield from (tensor.name for tensor in graph.initializer)
        for node in graph.node:
            yield from _names_of(node)
    for node in _own_nodes(model):
        yield from _names_of(node)
    for tensor in tensors(model):
        for entry in tensor.external_data:
            yield from (entry.key, entry.value)


def _names_of(node: Any) -> Iterator[Any]:
    yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
    for attribute in node.attribute:
        yield from (attribute.name, attribute.ref_attr_name)


def _require_end(model: Any, name: str) -> None:
    """Raise if a function calls itself, or if functions expand the model to too many nodes."""
    functions = {(function.domain, function.name): list(function.node) for function in model.functions}
    if not functions:
        return
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: list[Any], inside: tuple[tuple[str, str], ...]) -> int:
        total = 0
        for node in nodes:
            called = (node.domain, node.op_type)
            if called in inside:
                raise DriftlineError(f"{name}: its function {called[1][:60]!r} calls itself. {_EXPORT}")
            if called in functions:
                if called not in sizes:
                    sizes[called] = size(functions[called], (*inside, called))
                total += sizes[called]
            total += 1 + sum(size(list(graph.node), inside) for graph in _inner(node))
        return total

    try:
        total = size(list(model.graph.node), ())
        for called in functions:  # also functions that are never called: tools read all of them
            total = max(total, size(functions[called], (called,)))
    except RecursionError as error:
        raise DriftlineError(f"{name}: its functions are nested too deep. {_EXPORT}") from error
    if total > MOST_NODES:
        raise DriftlineError(f"{name} has {total} nodes with its functions expanded, which is too many. {_EXPORT}")
