"""Convert generated programs to and from the abstract graph, so that they can be cut before they are emitted.

Their types are known without a run. Values keep the numbers of the whole program, and `data` of a value is this number:
a worker that has all values of the whole program can feed any part of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from driftline.diagnose.reduce.graph import Evaluated, ProgramGraph, ProgramLeaf, ProgramNode, ValueType
from driftline.generate.graph import Graph, Leaf, Node
from driftline.generate.kernels import only_moves
from driftline.generate.table import OPERATORS
from driftline.generate.transforms import under

MOST_VALUES = 24
_ALIAS = "alias:"
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


def read_generated(whole: Graph) -> Evaluated:
    types = {number: ValueType(kind.dtype, kind.shape) for number, kind in enumerate(whole.types())}
    data = {number: str(number) for number in types}
    leaves = [
        ProgramLeaf(number, types[number], data[number], constant=leaf.kind != "input")
        for number, leaf in enumerate(whole.leaves)
    ]
    nodes = [
        ProgramNode(node.op, node.inputs, tuple(results), node.attributes, effects=OPERATORS[node.op].inplace)
        for node, results in zip(whole.nodes, whole.produced(), strict=True)
    ]
    return Evaluated(ProgramGraph(tuple(leaves), tuple(nodes), whole.outputs), types, data)


def write_generated(part: ProgramGraph, whole: Graph) -> Graph:
    """Return a part of the whole program as a generated program. Its leaf i has the value number
    `part.leaves[i].number`.
    """
    types = whole.types()
    numbers = [leaf.number for leaf in part.leaves] + [number for node in part.nodes for number in node.outputs]
    new = {number: at for at, number in enumerate(numbers)}
    nodes = [
        Node(
            node.op,
            tuple(new[number] for number in node.operands),
            tuple(types[number] for number in node.outputs),
            node.attributes,
        )
        for node in part.nodes
    ]
    leaves = [_leaf(whole, leaf.number, new) for leaf in part.leaves]
    made = Graph(tuple(leaves), tuple(nodes), tuple(new[number] for number in part.outputs), whole.grad)
    return under(made, whole.transform)


def _leaf(whole: Graph, number: int, new: Mapping[int, int]) -> Leaf:
    if number >= len(whole.leaves):
        return Leaf("input", whole.types()[number])
    leaf = whole.leaves[number]
    if leaf.layout.startswith(_ALIAS):
        base = new.get(int(leaf.layout.removeprefix(_ALIAS)), -1)
        return replace(leaf, layout=f"{_ALIAS}{base}" if 0 <= base < new[number] else "contiguous")
    return leaf


def handed_through(whole: Graph) -> Iterator[tuple[int, Graph]]:
    """Yield each value's number with a program that returns this value unchanged: a failure there is not about any
    operator.
    """
    for number, kind in enumerate(whole.types()):
        if "identity" not in OPERATORS or number >= MOST_VALUES:
            return
        yield number, Graph((Leaf("input", kind),), (Node("identity", (0,), (kind,)),), (1,))


def everything_returned(whole: Graph) -> Graph:
    """Return the program with every result as an output."""
    first = len(whole.leaves)
    return replace(whole, outputs=tuple(range(first, len(whole.types()))), grad=False, transform="")


def plainer_than(dtype: str, *, moved: bool) -> tuple[str, ...]:
    """Return simpler dtypes to try in place of a dtype, the simplest first. `moved`: the elements are only moved, not
    computed with.
    """
    tried = _TRIED_AS.get(dtype, ())
    return tried if not moved or dtype == "float32" or "float32" in tried else ("float32", *tried)


def in_plainer_dtypes(part: Graph) -> list[tuple[Graph, str, str]]:
    """Return the program in simpler dtypes, the simplest first, as (graph, old dtype, new dtype). The types of the
    results are still the old ones.
    """
    found = []
    moved = all(only_moves(node.op) for node in part.nodes)
    for old in sorted({leaf.type.dtype for leaf in part.leaves}):
        for new in plainer_than(old, moved=moved):
            leaves = tuple(
                replace(leaf, type=leaf.type.with_dtype(new)) if leaf.type.dtype == old else leaf
                for leaf in part.leaves
            )
            found += [(form, old, new) for form in with_casts(replace(part, leaves=leaves), old, new)]
    return found


def with_casts(part: Graph, old: str, new: str) -> list[Graph]:
    """Return the program with its casts to `old` changed to `new`, and unchanged: a program that casts to an integer
    and back exists in every float dtype.
    """
    nodes = tuple(
        replace(node, attributes={**node.attributes, "to": new}) if node.attributes.get("to") == old else node
        for node in part.nodes
    )
    return [part] if nodes == part.nodes else [replace(part, nodes=nodes), part]
