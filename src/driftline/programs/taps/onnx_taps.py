"""Taps of ONNX models: lists the values along the main graph, and writes the model with some of them as outputs.

`write_tapped` can also cut: nodes that read a cut value then read an input of the model instead, so that each part of
the model is run on given values and shows the error that is made in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from driftline.core.tensors import ANY_SIZE, Arrays, is_float
from driftline.programs.onnx.model import input_spec
from driftline.programs.taps.onnx_types import value_types
from driftline.programs.taps.requests import TappedForm
from driftline.programs.taps.scopes import onnx_scope
from driftline.programs.taps.tap import Tap

# Operators whose result is a rearrangement or a part of their argument.
_VIEWS = frozenset(
    "Identity Reshape Flatten Squeeze Unsqueeze Transpose Expand Slice Split Dropout Constant ConstantOfShape"
    " SequenceAt SplitToSequence Optional OptionalGetElement DepthToSpace SpaceToDepth".split()
)


def list_taps(model: Any, arrays: Arrays) -> list[Tap]:
    """Return every float result of the main graph that depends on the inputs and is not just a view."""
    graph = model.graph
    types = value_types(model, {name: array.shape for name, array in arrays.items()})
    weights = {tensor.name for tensor in graph.initializer}
    returned = {value.name for value in graph.output}
    reached = {value.name for value in graph.input if value.name not in weights}
    alive = _alive(graph, set(reached))
    taps = []
    for position, node in enumerate(graph.node):
        read = names_read(node)
        if not reached.intersection(read):
            continue  # computed from weights alone
        reached.update(node.output)
        if node.op_type in _VIEWS:
            continue
        scope = onnx_scope(node.name, _metadata(node), [name for name in read if name in weights])
        for value in node.output:
            found = _typed(types.get(value))
            if value and found and is_float(found[0]):
                own = value in returned
                taps.append(Tap(value, position, node.op_type, node.name, scope, *found, alive[position], own))
    return taps


def write_tapped(
    model: Any, taps: Sequence[str], path: Path, *, cuts: Sequence[str] = (), returned: bool = False
) -> TappedForm:
    """Write the model with the taps as outputs, followed by its own if `returned`; unused nodes are removed. Returns
    its inputs and outputs; `order` names what each input gets: an input of the original model, or `cut.N` for the N-th
    cut."""
    import onnx

    graph = model.graph
    types = value_types(model)
    own = list(graph.output)
    renamed = {value: f"cut.{number}" for number, value in enumerate(cuts)}
    if renamed:
        for node in graph.node:
            rename_read(node, renamed)
    outputs = [onnx.ValueInfoProto(name=value, type=types[value]) for value in taps]
    del graph.output[:]
    graph.output.extend(outputs)
    graph.output.extend(value for value in (own if returned else ()) if value.name not in taps)
    _keep_needed(graph, [value.name for value in graph.output])
    for value, name in renamed.items():
        graph.input.append(onnx.ValueInfoProto(name=name, type=types[value]))
    del graph.value_info[:]
    onnx.save_model(model, str(path))
    weights = {tensor.name for tensor in graph.initializer}
    inputs = tuple(input_spec(value) for value in graph.input if value.name not in weights)
    return TappedForm(inputs, tuple(spec.name for spec in inputs), tuple(value.name for value in graph.output))


def names_read(node: Any) -> set[str]:
    """Return the names that a node reads, including those read by graphs inside it."""
    found = set(node.input)
    for graph in _graphs(node):
        made = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        read = {value.name for value in graph.output}
        for inner in graph.node:
            read |= names_read(inner)
            made.update(inner.output)
        found |= read - made
    return found - {""}


def rename_read(node: Any, names: Mapping[str, str]) -> None:
    for at, name in enumerate(node.input):
        node.input[at] = names.get(name, name)
    for graph in _graphs(node):
        hidden = {value.name for value in graph.input} | {name for inner in graph.node for name in inner.output}
        outer = {name: new for name, new in names.items() if name not in hidden}
        for inner in graph.node:
            rename_read(inner, outer)
        for value in graph.output:
            value.name = outer.get(value.name, value.name)


def _graphs(node: Any) -> Iterable[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _keep_needed(graph: Any, wanted: Iterable[str]) -> None:
    needed = set(wanted)
    for at in reversed(range(len(graph.node))):
        if needed.intersection(graph.node[at].output):
            needed |= names_read(graph.node[at])
        else:
            del graph.node[at]
    weights = {tensor.name for tensor in graph.initializer}
    for field in (graph.initializer, graph.input):
        for at in reversed(range(len(field))):
            if field[at].name in weights and field[at].name not in needed:
                del field[at]


def _alive(graph: Any, reached: set[str]) -> list[int]:
    """Return for each node how many results that depend on the inputs are still read by later nodes."""
    last: dict[str, int] = {}
    for position, node in enumerate(graph.node):
        for name in names_read(node):
            last[name] = position
    for value in graph.output:
        last[value.name] = len(graph.node)
    made: set[str] = set()
    counts = []
    for position, node in enumerate(graph.node):
        if reached.intersection(names_read(node)):
            reached.update(node.output)
            made.update(name for name in node.output if name)
        made = {name for name in made if last.get(name, -1) > position}
        counts.append(len(made))
    return counts


def _typed(kind: Any) -> tuple[str, tuple[int, ...]] | None:
    """Return dtype and shape, as far as it is known; None for an unknown type."""
    import onnx

    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.elem_type:
        return None
    tensor = kind.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    dims = tensor.shape.dim if tensor.HasField("shape") else ()
    return dtype, tuple(dim.dim_value if dim.HasField("dim_value") else ANY_SIZE for dim in dims)


def _metadata(node: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in node.metadata_props}
