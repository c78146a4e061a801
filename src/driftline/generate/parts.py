"""Parts of a graph: programs of a few of its nodes, fed with the values that the whole computed there.

A part that fails is a failing program of its own, whatever the whole did: nothing has to be assumed to trust it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from driftline.core.identity import WITH_GRADIENT
from driftline.generate.graph import Graph, Leaf, Node, TensorType
from driftline.generate.table import OPERATORS

MOST_VALUES = 24
# What a dtype is tried as, so that a failure that is not about the dtype is always seen in the same one.
_TRIED_AS = {
    "float64": ("float32",),
    "float16": ("float32",),
    "bfloat16": ("float32", "float16"),
    "int64": ("int32",),
    "int16": ("int32",),
    "int8": ("int32",),
    "uint8": ("int32", "int8"),
    "uint16": ("int32", "uint8"),
    "uint32": ("int32", "uint8"),
    "uint64": ("int32", "uint8"),
    "complex128": ("complex64",),
}
# Elements stay what they are and in their order: around an operator that computes, these are not what went wrong.
_TRANSPARENT = {
    "identity", "clone", "contiguous", "detach", "flatten", "flatten_2d", "reshape", "reshaped_back", "squeeze",
    "squeeze_all", "transposed_twice", "unflatten", "unsqueeze", "view",
}  # fmt: skip
# ONNX operators that mean something else than ours of the same name.
_OTHER_MEANING = {"Flatten", "Gather", "Max", "Mean", "Min", "Scatter", "Sum"}
_VARIANTS = {"div:floor_rounding": "div_floor", "div:trunc_rounding": "div_trunc"}
_WORDS = {"float32": "float", "int32": "int", "complex64": "complex"}


@dataclass(frozen=True)
class Part:
    """A graph cut out of another. `sources[i]` is the value of the whole that leaf i holds."""

    graph: Graph
    sources: tuple[int, ...]
    nodes: tuple[int, ...]


def cut(graph: Graph, nodes: Iterable[int], *, ends_only: bool = False) -> Part:
    """The part made of these nodes. What they read from elsewhere becomes an input, what others read an output; with
    `ends_only` only what none of them reads, since a compiler may fuse only what nothing else reads."""
    kept = sorted(set(nodes))
    produced = graph.produced()
    types = graph.types()
    inside = {number for node in kept for number in produced[node]}
    sources: list[int] = []
    for node in kept:
        for number in graph.nodes[node].inputs:
            if number not in inside and number not in sources:
                sources.append(number)
    new = {number: at for at, number in enumerate(sources)}
    for node in kept:
        for number in produced[node]:
            new[number] = len(new)
    wanted = set(graph.outputs)
    for node, other in enumerate(graph.nodes):
        if node not in kept:
            wanted |= set(other.inputs)
    if ends_only:
        wanted = inside - {number for node in kept for number in graph.nodes[node].inputs}
    outputs = [new[number] for node in kept for number in produced[node] if number in wanted]
    outputs = outputs or [new[number] for number in produced[kept[-1]]]
    made = [
        replace(graph.nodes[node], inputs=tuple(new[number] for number in graph.nodes[node].inputs)) for node in kept
    ]
    leaves = tuple(_leaf(graph, number, types[number], new) for number in sources)
    return Part(Graph(leaves, tuple(made), tuple(outputs), graph.grad), tuple(sources), tuple(kept))


def _leaf(graph: Graph, number: int, kind: TensorType, new: dict[int, int]) -> Leaf:
    if number >= len(graph.leaves):
        return Leaf("input", kind)
    leaf = graph.leaves[number]
    if leaf.layout.startswith("alias:"):
        base = new.get(int(leaf.layout[6:]), -1)
        return replace(leaf, layout=f"alias:{base}" if 0 <= base < new[number] else "contiguous")
    return leaf


def passing_through(graph: Graph) -> Iterator[Part]:
    """Each value of the graph, handed in and out again: what fails here is not about any operator."""
    for number, kind in enumerate(graph.types()):
        if "identity" not in OPERATORS or number >= MOST_VALUES:
            return
        yield Part(Graph((Leaf("input", kind),), (Node("identity", (0,), (kind,)),), (1,)), (number,), ())


def windows(graph: Graph, size: int, most: int = 48, *, ends_only: bool = False) -> list[Part]:
    """All connected parts of `size` nodes, up to a number of them."""
    makers = {number: node for node, span in enumerate(graph.produced()) for number in span}
    neighbours: list[set[int]] = [set() for _ in graph.nodes]
    for node, made in enumerate(graph.nodes):
        for number in made.inputs:
            if number in makers:
                neighbours[node].add(makers[number])
                neighbours[makers[number]].add(node)
    found: set[frozenset[int]] = {frozenset((node,)) for node in range(len(graph.nodes))}
    for _ in range(size - 1):
        found = {kept | {other} for kept in found for node in kept for other in neighbours[node] - kept}
    return [cut(graph, nodes, ends_only=ends_only) for nodes in sorted(map(sorted, found))[:most]]


def everything_returned(graph: Graph) -> Graph:
    """The graph with every result among its outputs."""
    first = len(graph.leaves)
    return replace(graph, outputs=tuple(range(first, len(graph.types()))), grad=False)


def pattern(graph: Graph) -> str:
    """What a small graph computes, without shapes and numbers: `relu(clamp(float))`. One pattern, likely one cause."""
    makers = {number: node for node, span in enumerate(graph.produced()) for number in span}
    computes = any(node.op not in _TRANSPARENT for node in graph.nodes)

    def words(number: int) -> str:
        if number not in makers:
            return _WORDS.get(graph.types()[number].dtype, graph.types()[number].dtype)
        node = graph.nodes[makers[number]]
        if node.op in _TRANSPARENT and computes:
            return words(node.inputs[0])
        return f"{_kind(node.op)}({', '.join(dict.fromkeys(words(argument) for argument in node.inputs))})"

    if len(graph.nodes) > 6:
        names = {_kind(node.op) for node in graph.nodes if node.op not in _TRANSPARENT or not computes}
        dtypes = dict.fromkeys(words(number) for number in range(len(graph.leaves)))
        return f"{'+'.join(sorted(names))}({', '.join(dtypes)})"
    read = {number for node in graph.nodes for number in node.inputs}
    ends = [span[0] for span in graph.produced() if not any(number in read for number in span)]
    grown = f" {WITH_GRADIENT}" if graph.grad else ""
    return "; ".join(dict.fromkeys(words(number) for number in ends)) + grown


def operators_named(graph: Graph) -> tuple[str, ...]:
    """The operators of a small graph by their usual names, each once, without those that only pass elements on."""
    computes = any(node.op not in _TRANSPARENT for node in graph.nodes)
    return tuple(dict.fromkeys(_kind(n.op) for n in graph.nodes if n.op not in _TRANSPARENT or not computes))


def usual_names(coverage: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The operators of a program that is no graph of ours, by the names in our own table where they are the same."""
    return tuple(dict.fromkeys(_usual(operator) for operator, _ in coverage))


def _kind(operator: str) -> str:
    """An operator that takes a number, on either side, is the one that takes tensors: `rsub_scalar`, `sub`."""
    base = operator.removesuffix("_scalar")
    if base == operator:
        return operator
    return next((name for name in (base, base.removeprefix("r")) if name in OPERATORS), operator)


def named(coverage: Iterable[tuple[str, str]]) -> str:
    """The pattern of a program that is no graph of ours: its operators with their dtypes."""
    return " > ".join(f"{_usual(operator)}({_WORDS.get(dtype, dtype)})" for operator, dtype in coverage)


def _usual(operator: str) -> str:
    """The name of an operator in our own table, where it is the same one: a bug has one name, whoever finds it."""
    if operator in _OTHER_MEANING:
        return operator
    if operator in _VARIANTS:
        return _VARIANTS[operator]
    base = operator.partition(":")[0]  # without what tells the variants of a suite apart
    return _names().get(_squashed(operator)) or _names().get(_squashed(base), operator)


@cache
def _names() -> dict[str, str]:
    return {_squashed(name): name for name in OPERATORS if not name.endswith("_")}  # those write into an argument


def _squashed(name: str) -> str:
    return name.removeprefix("nn.functional.").removeprefix("native_").replace("_", "").lower()


def plainer(part: Graph) -> list[tuple[Graph, str, str]]:
    """The same graph in plainer dtypes, the plainest first: (graph, old dtype, new dtype)."""
    found = []
    for old in sorted({leaf.type.dtype for leaf in part.leaves} & set(_TRIED_AS)):
        for new in _TRIED_AS[old]:
            leaves = tuple(
                replace(leaf, type=leaf.type.with_dtype(new)) if leaf.type.dtype == old else leaf
                for leaf in part.leaves
            )
            found.append((replace(part, leaves=leaves), old, new))
    return found
