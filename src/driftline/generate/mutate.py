"""The generator `mutate`: a small change of an interesting program.

Arms are the kinds of change. If a change makes later types wrong, `infer` recomputes them, and the change is dropped if
that fails; the result is always a valid program.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from driftline.generate.base import Blueprint, Generator, GeneratorRequest, NoProgram
from driftline.generate.blueprint import LANGUAGE
from driftline.generate.graph import Graph, Node
from driftline.generate.operator import Draw, Invalid
from driftline.generate.random_graph import may_be_written, most_elements, stays_writable, varied
from driftline.generate.table import OPERATORS
from driftline.generate.transforms import TRANSFORMS, under

ATTEMPTS = 40


class Mutate(Generator):
    name = "mutate"
    needs_framework = False
    needs_base = True

    def arms(self, form: str) -> Sequence[str]:
        return [name for name, change in _CHANGES.items() if _ONLY.get(change, form) == form]

    def make(self, request: GeneratorRequest) -> Blueprint:
        if request.base is None:
            raise NoProgram("there is no program to change")
        language = LANGUAGE[request.form]
        rng = random.Random(f"{request.seed}/{request.form}/{request.arm}/{request.number}")
        for _ in range(ATTEMPTS):
            changed = _CHANGES[request.arm](request.base, language, Draw(rng))
            made = retyped(changed, language) if changed else None
            made = under(made, made.transform) if made else None
            if made is not None and made != request.base:
                return varied(made.without_unused_leaves(), request.form)
        raise NoProgram(f"no way was found to {request.arm}")


def retyped(graph: Graph, language: str) -> Graph | None:
    """Return the graph with the types of all results recomputed; None if a node no longer accepts its inputs."""
    types = [leaf.type for leaf in graph.leaves]
    writable = [may_be_written(leaf) for leaf in graph.leaves]
    nodes = []
    for node in graph.nodes:
        operator = OPERATORS[node.op]
        arguments = [types[number] for number in node.inputs]
        if not arguments or not operator.takes(language, arguments[0]):
            return None
        if operator.inplace and (graph.grad or not writable[node.inputs[0]]):
            return None
        try:
            results = tuple(operator.infer(arguments, node.attributes))
        except (Invalid, IndexError, KeyError, TypeError, ValueError):
            return None
        writable += [stays_writable(operator, arguments[0], results[0], writable[node.inputs[0]])] * len(results)
        if len(results) != len(node.outputs) or any(made.size > most_elements(graph) for made in results):
            return None
        types.extend(results)
        nodes.append(replace(node, outputs=results))
    return replace(graph, nodes=tuple(nodes))


# -- changes: each gives a graph whose types may be wrong, or None when it does not apply ------------------------------


def _swap_operator(graph: Graph, language: str, draw: Draw) -> Graph | None:
    """Replace an operator with another that has the same number of inputs."""
    at = draw.integer(0, len(graph.nodes) - 1)
    node = graph.nodes[at]
    types = graph.types()
    first = types[node.inputs[0]]
    other = OPERATORS[draw.choice(list(OPERATORS))]
    if other.name == node.op or not other.takes(language, first):
        return None
    try:
        needs, attributes = other.draw(draw, first)
    except Invalid:
        return None
    if len(needs) + 1 != len(node.inputs):
        return None
    return _with_node(graph, at, replace(node, op=other.name, attributes=attributes))


def _change_dtype(graph: Graph, language: str, draw: Draw) -> Graph | None:
    """Change the dtype of all leaves that have one dtype."""
    dtypes = sorted({leaf.type.dtype for leaf in graph.leaves if leaf.values == "any"})
    if not dtypes:
        return None
    old = draw.choice(dtypes)
    new = draw.choice(_DTYPES)
    leaves = [
        replace(leaf, type=leaf.type.with_dtype(new)) if leaf.type.dtype == old and leaf.values == "any" else leaf
        for leaf in graph.leaves
    ]
    return replace(graph, leaves=tuple(leaves))


def _change_attribute(graph: Graph, language: str, draw: Draw) -> Graph | None:
    at = draw.integer(0, len(graph.nodes) - 1)
    node = graph.nodes[at]
    if not node.attributes:
        return None
    try:
        _, attributes = OPERATORS[node.op].draw(draw, graph.types()[node.inputs[0]])
    except Invalid:
        return None
    key = draw.choice(list(node.attributes))
    return _with_node(graph, at, replace(node, attributes={**node.attributes, key: attributes.get(key)}))


def _change_shape(graph: Graph, language: str, draw: Draw) -> Graph | None:
    """Replace one size with another everywhere."""
    sizes = sorted({size for leaf in graph.leaves for size in leaf.type.shape})
    if not sizes:
        return None
    old, new = draw.choice(sizes), draw.choice((0, 1, 2, 3, 5, 8, 16, 17, 33))
    bounded = any(leaf.values not in ("any", "positive", "nonzero", "unit") for leaf in graph.leaves)
    if new < old and bounded:
        return None  # an index might no longer be one
    leaves = [
        replace(
            leaf,
            type=leaf.type.with_shape(new if size == old else size for size in leaf.type.shape),
            layout="contiguous",
        )
        for leaf in graph.leaves
    ]
    return replace(graph, leaves=tuple(leaves))


def _insert_view(graph: Graph, language: str, draw: Draw) -> Graph | None:
    return _insert(graph, language, draw, [name for name, operator in OPERATORS.items() if operator.view])


def _wrap_in_nothing(graph: Graph, language: str, draw: Draw) -> Graph | None:
    """Insert an operator that changes no value, which an optimiser removes."""
    return _insert(graph, language, draw, [name for name in _NOTHINGS if name in OPERATORS])


def _duplicate_user(graph: Graph, language: str, draw: Draw) -> Graph | None:
    """Duplicate a node and return the result of the copy too: a fusion must not assume that a value has one user."""
    at = draw.integer(0, len(graph.nodes) - 1)
    node = graph.nodes[at]
    if OPERATORS[node.op].inplace:
        return None
    first = len(graph.types())
    new = tuple(range(first, first + len(node.outputs)))
    return replace(graph, nodes=(*graph.nodes, node), outputs=(*graph.outputs, *new))


def _return_intermediate(graph: Graph, language: str, draw: Draw) -> Graph | None:
    number = draw.integer(0, len(graph.types()) - 1)
    return replace(graph, outputs=tuple(dict.fromkeys((*graph.outputs, number))))


def _change_kind(graph: Graph, language: str, draw: Draw) -> Graph | None:
    """Turn an input into a parameter or constant, or the reverse."""
    at = draw.integer(0, len(graph.leaves) - 1)
    leaf = graph.leaves[at]
    kind = draw.choice(("input", "constant", "parameter" if "float" in leaf.type.dtype else "constant"))
    inputs = len(graph.inputs) - (leaf.kind == "input") + (kind == "input")
    if not inputs:
        return None
    leaves = [
        replace(leaf, kind=kind, layout="contiguous") if n == at else other for n, other in enumerate(graph.leaves)
    ]
    if any(other.layout == f"alias:{at}" for other in graph.leaves):
        return None
    return replace(graph, leaves=tuple(leaves))


def _ask_gradient(graph: Graph, language: str, draw: Draw) -> Graph | None:
    if language != "torch" or any(OPERATORS[node.op].inplace for node in graph.nodes):
        return None
    plain = all(leaf.layout in ("contiguous", "transposed", "strided") for leaf in graph.leaves)
    return replace(graph, grad=not graph.grad) if plain else None


def _transform(graph: Graph, language: str, draw: Draw) -> Graph | None:
    return under(graph, draw.choice(("", *TRANSFORMS))) if language == "jnp" else None


def _insert(graph: Graph, language: str, draw: Draw, names: Sequence[str]) -> Graph | None:
    """Insert an operator between a value and all its readers."""
    if not names:
        return None
    types = graph.types()
    number = draw.integer(0, len(types) - 1)
    operator = OPERATORS[draw.choice(names)]
    if not operator.takes(language, types[number]) or operator.inplace:
        return None
    try:
        needs, attributes = operator.draw(draw, types[number])
        if needs:
            return None
        results = tuple(operator.infer([types[number]], attributes))
    except Invalid:
        return None
    spans = graph.produced()
    at = next((node + 1 for node, span in enumerate(spans) if number in span), 0)
    place = spans[at - 1].stop if at else len(graph.leaves)  # the number of the new value
    moved = {old: old if old < place else old + len(results) for old in range(len(types))}

    def reads(old: int) -> int:
        return place if old == number else moved[old]

    before = list(graph.nodes[:at])
    after = [replace(node, inputs=tuple(reads(old) for old in node.inputs)) for node in graph.nodes[at:]]
    nodes = (*before, Node(operator.name, (number,), results, attributes), *after)
    return replace(graph, nodes=nodes, outputs=tuple(reads(old) for old in graph.outputs))


def _with_node(graph: Graph, at: int, node: Node) -> Graph:
    return replace(graph, nodes=(*graph.nodes[:at], node, *graph.nodes[at + 1 :]))


_DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
_NOTHINGS = (
    "identity", "dropout_eval", "mul_one", "add_zero", "double_transpose", "cast_same", "contiguous", "clone", "detach",
)  # fmt: skip
_GraphChange = Callable[[Graph, str, Draw], Graph | None]
_CHANGES: dict[str, _GraphChange] = {
    "swap an operator": _swap_operator,
    "change a dtype": _change_dtype,
    "change an attribute": _change_attribute,
    "change a shape": _change_shape,
    "insert a view": _insert_view,
    "wrap in a no-op": _wrap_in_nothing,
    "duplicate a user": _duplicate_user,
    "return an intermediate": _return_intermediate,
    "change a leaf's kind": _change_kind,
    "ask for the gradient": _ask_gradient,
    "change the transformation": _transform,
}
_ONLY: dict[_GraphChange, str] = {_ask_gradient: "torch", _transform: "jax"}  # changes that one form of program knows
