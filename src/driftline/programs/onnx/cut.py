"""Cuts operators of unknown meaning out of models, so that the rest can be judged.

Operators of other domains have no reference. If such an operator's result has the type of its first argument, as far as
the model says, it is replaced by that argument; if the model declares another type, the result becomes an input; if its
type is unknown, the nodes that depend on it are removed. The operator's arguments become outputs of the model, so that
they are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# Contrib operators of ONNX Runtime that `programs/onnx/player` knows; those of the standard's own domain stand apart.
CONTRIB = frozenset({
    "Attention", "BiasGelu", "BiasSoftmax", "DequantizeLinear", "DynamicQuantizeMatMul", "EmbedLayerNormalization",
    "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul", "Gelu", "GroupQueryAttention", "MatMulIntegerToFloat",
    "MatMulNBits", "MultiHeadAttention", "QLinearAdd", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid",
    "QuantizeLinear", "QuickGelu", "RotaryEmbedding", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
    "TransposeMatMul",
})  # fmt: skip
CONTRIB_IN_STANDARD_DOMAIN = frozenset({"SimplifiedLayerNormalization"})
_STANDARD = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training")


@dataclass(frozen=True)
class Cut:
    """What was cut out of a model: a text that names the operators, and the number of further lost nodes."""

    operators: str
    lost: int
    outputs: tuple[str, ...]  # of the model as it was
    known: tuple[str, ...]  # the outputs that depend on no result of these operators

    def __str__(self) -> str:
        lost = f" {self.lost} nodes that depend on them were left out too." if self.lost else ""
        return (
            f"Judged without {self.operators}, whose meaning Driftline does not know: their inputs are compared, and"
            " the first is passed on in place of their result (or a new input, where the model declares another type)."
            f"{lost} A target may not be able to load the model as it is."
        )


def cut_around_unknown(model: Any) -> Cut | None:
    """Remove nodes of unknown meaning from the model, in place; returns `None` if there are none."""
    own = {(function.domain, function.name) for function in model.functions}
    unknown = [node for node in model.graph.node if not _is_known(node, own)]
    if not unknown:
        return None
    before = len(model.graph.node)
    outputs = tuple(output.name for output in model.graph.output)
    reached = _reached(model.graph, unknown)
    names = Counter(f"{node.domain}.{node.op_type}" for node in unknown if node.domain not in _STANDARD)
    fed: list[str] = []
    for node in unknown:
        fed += [name for name in node.input if name]
        _replace(model, node)
    _drop_dangling(model.graph)
    _expose(model, fed)
    what = (
        ", ".join(f"{count} x {name}" for name, count in sorted(names.items()))
        or "an If, Loop or Scan with such inside"
    )
    known = tuple(name for name in outputs if name not in reached)
    return Cut(what, max(before - len(model.graph.node), 0), outputs, known)


def _reached(graph: Any, nodes: list[Any]) -> set[str]:
    """Return the values that depend on results of these nodes. A node may read outer values in its inner graphs."""
    found = {name for node in nodes for name in node.output}
    for node in graph.node:  # in topological order
        read = set(node.input) | {name for inner in _inner(node) for each in inner.node for name in each.input}
        found |= set(node.output) if read & found else set()
    return found


def _replace(model: Any, node: Any) -> None:
    """Replace each result of a node by a value of the same type."""
    from onnx import helper

    types = _types(model)
    nodes = list(model.graph.node)
    at = nodes.index(node)
    first = node.input[0] if node.input else ""
    stand_ins = []
    for name in filter(None, node.output):
        declared, like = types.get(name), types.get(first)
        if first and (declared is None or (like is not None and _fits(declared, like))):
            stand_ins.append(helper.make_node("Identity", [first], [name]))
        elif declared is not None:
            model.graph.input.add(name=name).type.CopyFrom(declared)
    del model.graph.node[:]
    model.graph.node.extend([*nodes[:at], *stand_ins, *nodes[at + 1 :]])


def _fits(declared: Any, like: Any) -> bool:
    """True if a value of one type can replace one of the other. Unknown sizes match all."""
    one, other = declared.tensor_type, like.tensor_type
    sizes = zip(one.shape.dim, other.shape.dim, strict=False)
    return (
        one.elem_type == other.elem_type
        and len(one.shape.dim) == len(other.shape.dim)
        and all(a.dim_value == b.dim_value for a, b in sizes if a.dim_value and b.dim_value)
    )


def _is_known(node: Any, own: set[tuple[str, str]]) -> bool:
    named = (node.domain, node.op_type) in own or node.domain in _STANDARD
    contrib = node.domain == "com.microsoft" and node.op_type in CONTRIB
    return (named or contrib) and all(_is_known(inner, own) for graph in _inner(node) for inner in graph.node)


def _inner(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _types(model: Any) -> dict[str, Any]:
    """Return the declared or inferred type of every value."""
    from onnx import TypeProto, shape_inference

    try:
        inferred = shape_inference.infer_shapes(model).graph
    except Exception:  # too large for inference, or not supported: use the declared types only
        inferred = model.graph
    found = {
        value.name: value.type
        for value in (*inferred.input, *inferred.output, *inferred.value_info)
        if value.type.tensor_type.elem_type and value.type.tensor_type.HasField("shape")
    }
    for tensor in model.graph.initializer:
        kind = TypeProto()
        kind.tensor_type.elem_type = tensor.data_type
        for size in tensor.dims:
            kind.tensor_type.shape.dim.add(dim_value=size)
        found[tensor.name] = kind
    return found


def _drop_dangling(graph: Any) -> None:
    """Remove the nodes and outputs that need values which no node computes any more."""
    made = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer} | {""}
    kept = []
    for node in graph.node:
        if all(name in made for name in node.input):
            made |= set(node.output)
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
    inputs = {value.name for value in graph.input}
    outputs = [value for value in graph.output if value.name in made and value.name not in inputs]
    del graph.output[:]
    graph.output.extend(outputs)


def _expose(model: Any, names: list[str]) -> None:
    """Make these values outputs of the model, if one of its nodes computes them."""
    types = _types(model)
    made = {name for node in model.graph.node for name in node.output}
    there = {value.name for value in model.graph.output}
    for name in dict.fromkeys(names):
        if name in made and name not in there and name in types:
            model.graph.output.add(name=name).type.CopyFrom(types[name])
