"""Reads the settings of a program's operators: attributes, optional inputs and outputs, ranks.

Each is a word, as causes name them: `ceil_mode=1`, `mode=linear`, `to=float8_e4m3fn` (attributes and small constant
inputs; of a list, each of its numbers), `ceil_mode` (an attribute that is given at all), `pads=negative` (one of the
numbers is), `P` (an optional input or output, by the standard's name) and `rank=3` (dimensions of an operator's first
input).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from driftline.core.program import Program, SourceBundle
from driftline.programs.onnx.file import load_structure

MOST_OPERATORS = 32  # a larger program has to be reduced before a cause can explain its failure
_MOST_NUMBERS = 16  # of a constant input that says how to compute: axes, pads, scales, sizes
_TYPES = ("to", "dtype", "output_dtype")  # attributes that hold a data type as an integer


def settings_of(program: Program) -> frozenset[str]:
    """Return the settings of all operators of an ONNX model, or the keywords in the text of a source program. Empty for
    other forms, and for large models."""
    if program.form == "onnx":
        model = load_structure(program.path)
        return _ModelSettings(model).settings() if len(model.graph.node) <= MOST_OPERATORS else frozenset()
    if program.form == "source":
        try:
            return frozenset(_keywords(SourceBundle.load(program.path.read_bytes()).text))
        except (OSError, ValueError, KeyError, SyntaxError):
            return frozenset()
    return frozenset()


def _keywords(text: str) -> Iterator[str]:
    """Yield the keywords of all calls in a text that have literal values: `ceil_mode=True` gives ceil_mode=1."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg and isinstance(keyword.value, ast.Constant):
                    yield from _words(keyword.arg, [keyword.value.value])


def _words(name: str, values: Iterable[Any]) -> Iterator[str]:
    """Yield a setting as words: its name, the name with each of its values, and `=negative` for negative values."""
    yield name
    for value in values:
        value = int(value) if isinstance(value, bool) else value
        yield f"{name}={value}"
        if isinstance(value, (int, float)) and value < 0:
            yield f"{name}=negative"


def without_setting(model: Any, name: str) -> Any | None:
    """Return the model with an attribute or optional input of its operators removed, and without graph inputs that only
    these used; `None` if no operator has it."""
    import onnx

    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    places = _ModelSettings(changed)
    found = False
    for node in _nodes(changed.graph):
        kept = [one for one in node.attribute if one.name != name]
        found |= len(kept) < len(node.attribute)
        del node.attribute[:]
        node.attribute.extend(kept)
        for number in places.optional_inputs(node, name):
            node.input[number] = ""
            found = True
        while node.input and not node.input[-1]:
            del node.input[-1]
    read = {one for node in _nodes(changed.graph) for one in node.input}
    inputs = [one for one in changed.graph.input if one.name in read]
    del changed.graph.input[:]
    changed.graph.input.extend(inputs)
    return changed if found else None


class _ModelSettings:
    """Reads the settings of the nodes of one ONNX model, including subgraphs."""

    def __init__(self, model: Any) -> None:
        self._graph = model.graph
        self._opsets = {one.domain: one.version for one in model.opset_import}
        self._ranks = dict(_ranks(model.graph))
        self._constants = dict(_constants(model.graph))

    def settings(self) -> frozenset[str]:
        return frozenset(word for node in _nodes(self._graph) for word in self._of_node(node))

    def _of_node(self, node: Any) -> Iterator[str]:
        from onnx import helper

        if node.op_type == "Constant":
            return
        for attribute in node.attribute:
            value = helper.get_attribute_value(attribute)
            if isinstance(value, (int, float, bytes, list)):
                yield from _words(attribute.name, _values(attribute.name, value))
        if node.input and node.input[0] in self._ranks:
            yield f"rank={self._ranks[node.input[0]]}"
        yield from self._of_places(node)

    def optional_inputs(self, node: Any, name: str) -> list[int]:
        """Return the positions of the optional inputs of that name that a node has."""
        schema = self._schema(node)
        formal = schema.inputs if schema else ()
        pairs = enumerate(zip(node.input, formal, strict=False))
        return [number for number, (given, place) in pairs if given and place.name == name and _is_optional(place)]

    def _schema(self, node: Any) -> Any | None:
        from onnx import defs

        try:
            return defs.get_schema(node.op_type, self._opsets.get(node.domain, 1), node.domain)
        except defs.SchemaError:
            return None

    def _of_places(self, node: Any) -> Iterator[str]:
        """Yield the optional inputs and outputs that a node has, and the values of constant inputs."""
        schema = self._schema(node)
        if schema is None:
            return
        for given, formal in ((node.input, schema.inputs), (node.output, schema.outputs)):
            for name, place in zip(given, formal, strict=False):
                if name and _is_optional(place):
                    yield place.name
                if name in self._constants:
                    yield from _words(place.name, self._constants[name])


def _is_optional(place: Any) -> bool:
    from onnx import defs

    return bool(place.option == defs.OpSchema.FormalParameterOption.Optional)


def _values(name: str, value: Any) -> list[Any]:
    from onnx import helper

    values = value if isinstance(value, list) else [value]
    if name in _TYPES:
        return [helper.tensor_dtype_to_np_dtype(one).name for one in values if one]
    return [one.decode(errors="replace") if isinstance(one, bytes) else one for one in values]


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def _ranks(graph: Any) -> Iterator[tuple[str, int]]:
    for value in (*graph.input, *graph.value_info):
        if value.type.tensor_type.HasField("shape"):
            yield value.name, len(value.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        yield tensor.name, len(tensor.dims)


def _constants(graph: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield the names and numbers of small constants: initialisers and Constant nodes."""
    from onnx import numpy_helper

    tensors = [(tensor.name, tensor) for tensor in graph.initializer]
    tensors += [
        (node.output[0], attribute.t)
        for node in graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
    ]
    for name, tensor in tensors:
        if not tensor.external_data and sum(tensor.dims) <= _MOST_NUMBERS:
            yield name, numpy_helper.to_array(tensor).reshape(-1).tolist()
