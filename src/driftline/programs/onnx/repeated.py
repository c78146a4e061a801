"""Chains copies of an ONNX model: each copy takes the result of the one before it. Weights are shared.

If no input can take the result, the copies are independent, and each has inputs of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest

import onnx
from onnx import TensorProto, helper

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def repeated_model(model: onnx.ModelProto, copies: int) -> onnx.ModelProto:
    """Return the model with `copies` copies. Raises `ValueError` if all copies would be the same."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    result = model.graph.output[0]
    place = fed_input(model)
    floats = [value for value in inputs if value.type.tensor_type.elem_type in _FLOATS]
    if not place and not floats:
        raise ValueError("no input takes the result, nor is one of floats: the copies would all be the same")
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:], made.graph.value_info[:], made.graph.output[:]
    own = {name for node in model.graph.node for name in node.output if name}
    mark = _new_mark(model.graph)
    given: dict[str, str] = {}
    for copy in range(copies):
        if not place:
            given = {value.name: _shifted(made.graph, value, f"{mark}{copy}", copy) for value in floats}
        names = {name: f"{name}{mark}{copy}" for name in own} | given
        made.graph.node.extend(_renamed(node, names) for node in model.graph.node)
        given = {place: names.get(result.name, result.name)}
        if not place or copy == copies - 1:
            made.graph.output.extend(_output(value, names, bool(place)) for value in model.graph.output)
    return made


def fed_input(model: onnx.ModelProto) -> str:
    """Return the name of an input that can take the result, or an empty text."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    return next((value.name for value in inputs if _fits(model.graph.output[0], value)), "")


def count_nodes(model: onnx.ModelProto) -> int:
    """Return the number of nodes, without constants."""
    return sum(node.op_type != "Constant" for node in model.graph.node)


def _fits(result: onnx.ValueInfoProto, value: onnx.ValueInfoProto) -> bool:
    """True if the result can be fed to the input `value`. An open size of the input accepts any."""
    gives, takes = result.type.tensor_type, value.type.tensor_type
    if gives.elem_type != takes.elem_type or not takes.HasField("shape") or not gives.HasField("shape"):
        return False
    pairs = zip_longest(gives.shape.dim, takes.shape.dim)
    return all(
        new is not None and old is not None and (not old.dim_value or old.dim_value == new.dim_value)
        for new, old in pairs
    )


def _new_mark(graph: onnx.GraphProto) -> str:
    """Return a separator of names and copy numbers that occurs in no name of the model, so that names stay unique."""
    names, mark = list(_names(graph)), "_"
    while any(mark in name for name in names):
        mark += "_"
    return mark


def _names(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names of all values, including those of subgraphs."""
    yield from (value.name for value in (*graph.input, *graph.initializer))
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    for node in graph.node:
        yield from node.output
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _names(inner)


def _shifted(graph: onnx.GraphProto, value: onnx.ValueInfoProto, suffix: str, copy: int) -> str:
    """Add a node that computes the input plus the number of the copy, and return its name."""
    name = f"{value.name}{suffix}"
    constant = helper.make_tensor(f"{name}_by", value.type.tensor_type.elem_type, [], [float(copy)])
    graph.initializer.append(constant)
    graph.node.append(helper.make_node("Add", [value.name, constant.name], [name]))
    return name


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.name = ""
    made.input[:] = [names.get(name, name) for name in node.input]
    made.output[:] = [names.get(name, name) for name in node.output]
    for attribute in made.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            inner = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
            inner |= {name for one in graph.node for name in one.output}
            outer = {name: new for name, new in names.items() if name not in inner}
            kept = [_renamed(one, outer) for one in graph.node]
            del graph.node[:]
            graph.node.extend(kept)
            for value in graph.output:
                value.name = outer.get(value.name, value.name)
    return made


def _output(value: onnx.ValueInfoProto, names: Mapping[str, str], in_a_row: bool) -> onnx.ValueInfoProto:
    """Return the output of the chained model; with `in_a_row`, its open sizes get new names, since they may differ."""
    made = onnx.ValueInfoProto()
    made.CopyFrom(value)
    made.name = names.get(value.name, value.name)
    for at, dim in enumerate(made.type.tensor_type.shape.dim if in_a_row else ()):
        if not dim.dim_value:
            dim.dim_param = f"{made.name}_size{at}"
    return made
