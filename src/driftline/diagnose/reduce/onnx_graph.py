"""Read ONNX models into abstract graphs, and write them. The module runs in a worker, since it imports onnx.

Constants, whether initialisers or nodes, are leaves, but those that are not of our dtypes (four bits, text): these are
nodes. Attributes that are numbers or text are plain JSON, under a letter for their type; tensors and subgraphs stay
serialised. What a subgraph reads from outside is an input of its node.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from driftline.core.tensors import DTYPES, Array
from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph, ProgramLeaf, ProgramNode, ValueType
from driftline.diagnose.reduce.values import Numbered, Values, roughness
from driftline.programs.onnx.evaluator import make_evaluator

_KINDS = {
    AttributeProto.INT: "i", AttributeProto.FLOAT: "f", AttributeProto.STRING: "s",
    AttributeProto.INTS: "I", AttributeProto.FLOATS: "F", AttributeProto.STRINGS: "S",
}  # fmt: skip
_NUMERIC = (np.ndarray, np.generic)


# -- reading -----------------------------------------------------------------------------------------------------------


def read_onnx(data: bytes, samples: Sequence[Mapping[str, Array]], values: Values) -> ProgramGraph:
    """Read an ONNX model into a graph, with the values of each sample."""
    model = onnx.load_model_from_string(data)
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    numbers: dict[str, int] = {}
    leaves: list[ProgramLeaf] = []
    nodes: list[ProgramNode] = []

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    def leaf(name: str, arrays: list[Array], constant: bool) -> None:
        kind = ValueType(arrays[0].dtype.name, tuple(arrays[0].shape))
        leaves.append(ProgramLeaf(number(name), kind, values.save(arrays), constant, roughness(arrays)))

    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.name in samples[0]:
            constants.pop(value.name, None)
            leaf(value.name, [sample[value.name] for sample in samples], constant=False)
    for node in model.graph.node:
        folded = _constant(node)
        if folded is not None:
            constants[node.output[0]] = folded
    for name, array in constants.items():
        if array.dtype.name in DTYPES:
            leaf(name, [array] * len(samples), constant=True)
        else:
            held = helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
            nodes.append(replace(_read_node(held, number), free=True))
    for node in model.graph.node:
        if _constant(node) is None:
            nodes.append(_read_node(node, number))
    outputs = tuple(dict.fromkeys(number(value.name) for value in model.graph.output))
    header = {
        "valid": _is_valid(model),
        "ir_version": model.ir_version,
        "opsets": [[opset.domain, opset.version] for opset in model.opset_import],
    }
    return ProgramGraph(tuple(leaves), tuple(nodes), outputs, header)


def _is_valid(model: Any) -> bool:
    """True if the ONNX checker accepts the model. The reference evaluator also runs some models that the checker
    rejects.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception:  # with operators of other domains, too
        return False
    return True


def _constant(node: Any) -> Array | None:
    """Return the value of a Constant node, or None if it is not a dense tensor."""
    if node.op_type != "Constant" or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.name == "value":
        return numpy_helper.to_array(attribute.t)
    found = helper.get_attribute_value(attribute)
    dtypes = {"value_float": np.float32, "value_int": np.int64, "value_floats": np.float32, "value_ints": np.int64}
    return np.array(found, dtypes[attribute.name]) if attribute.name in dtypes else None


def _read_node(node: Any, number: Any) -> ProgramNode:
    read = [None if not name else number(name) for name in node.input]
    captured = sorted({name for attribute in node.attribute for name in _captured(attribute)})
    attributes: dict[str, Any] = {a.name: _attribute_json(a) for a in node.attribute}
    if captured:
        attributes["$captured"] = captured
    unnamed = [at for at, name in enumerate(node.output) if not name]
    if unnamed:  # optional results that are unused
        attributes["$unnamed"] = unnamed
    made = [number(name or f"{id(node)}.{at}") for at, name in enumerate(node.output)]
    op = f"{node.domain}::{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
    return ProgramNode(op, (*read, *(number(name) for name in captured)), tuple(made), attributes)


def _captured(attribute: Any) -> Iterator[str]:
    """Yield the names that the subgraphs of an attribute read from outside."""
    for graph in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
        known = {value.name for value in (*graph.input, *graph.initializer)}
        for node in graph.node:
            inner = {name for own in node.attribute for name in _captured(own)}
            yield from (name for name in (*node.input, *inner) if name and name not in known)
            known |= set(node.output)
        yield from (value.name for value in graph.output if value.name not in known)


def _attribute_json(attribute: Any) -> Any:
    kind = _KINDS.get(attribute.type)
    if kind is None or attribute.ref_attr_name:
        return {"P": base64.b64encode(attribute.SerializeToString()).decode()}
    value = helper.get_attribute_value(attribute)
    if kind == "s":
        return {"s": value.decode()}
    if kind == "S":
        return {"S": [item.decode() for item in value]}
    return {kind: list(value) if kind in ("I", "F") else value}


# -- running -----------------------------------------------------------------------------------------------------------


def evaluate_onnx(graph: ProgramGraph, values: Values, samples: int) -> Evaluated:
    """Run the model with every value as an output. If it raises, only the leaves are known."""
    types: dict[int, ValueType | None] = {leaf.number: leaf.type for leaf in graph.leaves}
    data = {leaf.number: leaf.data for leaf in graph.leaves}
    rough: dict[int, int] = {}
    made = [number for node in graph.nodes for number in _named(node)]
    names = _names(graph)
    model = _model(graph, values, [], made, names)
    runs = []
    for index in range(samples):
        feed = {names[v.number]: values.load(v.data)[index] for v in graph.leaves if not v.constant}
        try:
            with np.errstate(all="ignore"):
                runs.append(make_evaluator(model).run([names[number] for number in made], feed))
        except Exception:  # it raises what numpy, Python or onnx raise; a program that cannot run has no values
            return Evaluated(graph, types, data)
    for number, found in zip(made, zip(*runs, strict=True), strict=True):
        tensors = all(isinstance(value, _NUMERIC) and _has_type(np.asarray(value)) for value in found)
        arrays = [np.asarray(value) for value in found] if tensors else []
        types[number] = ValueType(arrays[0].dtype.name, tuple(arrays[0].shape)) if arrays else None
        if arrays and arrays[0].dtype.name in DTYPES:
            data[number] = values.save(arrays)
            rough[number] = roughness(arrays)
    return Evaluated(graph, types, data, rough)


def _has_type(array: Array) -> bool:
    """True for dtypes that can be an output of a program; other values are only passed between nodes."""
    return array.dtype.name in DTYPES or array.dtype.kind in "OUS"


def every_value_onnx(
    graph: ProgramGraph, values: Values, versions: Iterable[Sequence[str]]
) -> Iterator[list[Numbered]]:
    """Yield all values of the graph on each sample, for each version of the values of its leaves. Constants are those
    of the graph.
    """
    made = [number for node in graph.nodes for number in _named(node)]
    names = _names(graph)
    evaluator = None
    for version in versions:
        held = {leaf.number: values.load(name) for leaf, name in zip(graph.leaves, version, strict=True)}
        found = []
        for index in range(min(map(len, held.values()), default=1)):
            known = {number: arrays[index] for number, arrays in held.items()}
            feed = {names[leaf.number]: known[leaf.number] for leaf in graph.leaves if not leaf.constant}
            try:
                evaluator = evaluator or make_evaluator(_model(graph, values, [], made, names))
                with np.errstate(all="ignore"):
                    results = evaluator.run([names[number] for number in made], feed)
            except Exception:  # then the reference raises too, and says why
                results = []
            numeric = {n: np.asarray(a) for n, a in zip(made, results, strict=False) if isinstance(a, _NUMERIC)}
            found.append(known | numeric)
        yield found


# -- writing -----------------------------------------------------------------------------------------------------------


def write_onnx(graph: ProgramGraph, values: Values) -> tuple[bytes, list[str]]:
    """Return the model, and the names of its inputs in the order of the input leaves."""
    names = _names(graph)
    known = evaluate_onnx(graph, values, 1).types
    outputs = [helper.make_tensor_value_info(names[n], *_declared(known.get(n))) for n in graph.outputs]
    model = _model(graph, values, outputs, graph.outputs, names)
    if graph.header["valid"] and not _is_valid(model):
        raise ValueError("not a valid model")
    return model.SerializeToString(), [names[leaf.number] for leaf in graph.leaves if not leaf.constant]


def _declared(kind: ValueType | None) -> tuple[int, Any]:
    if kind is None:  # the program does not run, or the value is not a tensor: leave the type open
        return TensorProto.UNDEFINED, None
    return _code(kind.dtype), kind.shape


def _code(dtype: str) -> int:
    from driftline.core.tensors import numpy_dtype

    return int(helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype)))


def _names(graph: ProgramGraph) -> dict[int, str]:
    inputs = [leaf.number for leaf in graph.leaves if not leaf.constant]
    constants = [leaf.number for leaf in graph.leaves if leaf.constant]
    made = [number for node in graph.nodes for number in node.outputs]
    names = {number: f"x{at}" if len(inputs) > 1 else "x" for at, number in enumerate(inputs)}
    names |= {number: f"c{at}" for at, number in enumerate(constants)}
    names |= {number: f"v{at}" for at, number in enumerate(made)}
    outputs = [number for number in graph.outputs if number not in graph.leaf]
    return names | {number: f"y{at}" if len(outputs) > 1 else "y" for at, number in enumerate(outputs)}


def _model(
    graph: ProgramGraph, values: Values, outputs: list[Any], wanted: Sequence[int], names: Mapping[int, str]
) -> Any:
    inputs = [
        helper.make_tensor_value_info(names[leaf.number], _code(leaf.type.dtype), _open_shape(leaf, values))
        for leaf in graph.leaves
        if not leaf.constant
    ]
    if not outputs:
        outputs = [helper.make_tensor_value_info(names[number], TensorProto.UNDEFINED, None) for number in wanted]
    constants = [
        numpy_helper.from_array(values.load(leaf.data)[0], names[leaf.number]) for leaf in graph.leaves if leaf.constant
    ]
    nodes = [_write_node(node, names) for node in graph.nodes]
    body = helper.make_graph(nodes, "reduced", inputs, outputs, constants)
    used = {node.domain for node in nodes} | {""}
    opsets = [helper.make_opsetid(d, v) for d, v in graph.header["opsets"] if d in used or d == "ai.onnx"]
    return helper.make_model(body, opset_imports=opsets, ir_version=graph.header["ir_version"])


def _open_shape(leaf: ProgramLeaf, values: Values) -> list[int | None]:
    """Return the shape of an input, with None for dimensions in which the samples differ."""
    shapes = [array.shape for array in values.load(leaf.data)]
    return [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True)]


def _named(node: ProgramNode) -> list[int]:
    """Return the outputs of a node that have a name."""
    return [number for at, number in enumerate(node.outputs) if at not in node.attributes.get("$unnamed", ())]


def _write_node(node: ProgramNode, names: Mapping[int, str]) -> Any:
    domain, _, kind = node.op.rpartition("::")
    captured: list[str] = node.attributes.get("$captured", [])
    own = node.inputs[: len(node.inputs) - len(captured)]
    read = ["" if number is None else names[number] for number in own]
    while read and not read[-1]:
        read.pop()
    asked = _named(node)
    results = [names[number] if number in asked else "" for number in node.outputs]
    made = helper.make_node(kind, read, results, domain=domain)
    outside = dict(zip(captured, (names[n] for n in node.inputs[len(own) :] if n is not None), strict=True))
    for name, value in node.attributes.items():
        if not name.startswith("$"):
            made.attribute.append(_write_attribute(name, value, outside))
    return made


def _write_attribute(name: str, value: Mapping[str, Any], outside: Mapping[str, str]) -> Any:
    ((kind, held),) = value.items()
    if kind == "P":
        attribute = AttributeProto.FromString(base64.b64decode(held))
        for graph in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
            _rename(graph, outside)
        return attribute
    if kind in "IFS" and not held:
        types = {"I": AttributeProto.INTS, "F": AttributeProto.FLOATS, "S": AttributeProto.STRINGS}
        return helper.make_attribute(name, held, attr_type=types[kind])
    return helper.make_attribute(name, float(held) if kind == "f" else held)


def _rename(graph: Any, outside: Mapping[str, str]) -> None:
    """Rename values from outside to their new names, and the subgraph's own values to names that are unique."""
    own = {name for node in graph.node for name in node.output if name}
    own |= {value.name for value in (*graph.input, *graph.initializer)}
    names = {**outside, **{name: f"inner.{name}" for name in own}}

    def renamed(items: Any) -> None:
        for at, name in enumerate(items):
            items[at] = names.get(name, name)

    for value in (*graph.input, *graph.initializer, *graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        renamed(node.input)
        renamed(node.output)
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
                _rename(inner, names)
