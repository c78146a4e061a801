"""A generated program before it is written in a language: a typed graph of operators.

Values are numbered: first the leaves, then the results of the nodes, in order. A graph is a plain value that is stored
as JSON; `emit_torch`, `emit_onnx` and `emit_jax` write it as a program.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from driftline.core.wire import own_form


@dataclass(frozen=True)
class TensorType:
    """The dtype and shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def with_shape(self, shape: Iterable[int]) -> TensorType:
        return TensorType(self.dtype, tuple(shape))

    def with_dtype(self, dtype: str) -> TensorType:
        return TensorType(dtype, self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Leaf:
    """A tensor that no node computes: an input, parameter or constant. `values` says what it may hold (see `Need`);
    `layout` is its memory layout in torch programs: contiguous, transposed, strided, expanded, overlapping, or
    `alias:N` for a view of leaf N."""

    kind: str  # input, parameter, constant
    type: TensorType
    values: str = "any"
    layout: str = "contiguous"
    seed: int = 0  # of the numbers in parameters and constants

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "dtype": self.type.dtype,
            "shape": list(self.type.shape),
            "values": self.values,
            "layout": self.layout,
            "seed": self.seed,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Leaf:
        kind = TensorType(value["dtype"], tuple(value["shape"]))
        return Leaf(value["kind"], kind, value["values"], value["layout"], value["seed"])


@dataclass(frozen=True)
class Node:
    """One application of an operator to values, with its attributes and the types of its results."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[TensorType, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "op": self.op,
            "inputs": list(self.inputs),
            "outputs": [[t.dtype, list(t.shape)] for t in self.outputs],
            "attributes": {key: _plain(value) for key, value in self.attributes.items()},
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Node:
        outputs = tuple(TensorType(dtype, tuple(shape)) for dtype, shape in value["outputs"])
        attributes = {key: _python(item) for key, item in value["attributes"].items()}
        return Node(value["op"], tuple(value["inputs"]), outputs, attributes)


@own_form
@dataclass(frozen=True)
class Graph:
    """Leaves, nodes in execution order, and the numbers of the returned values."""

    leaves: tuple[Leaf, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    grad: bool = False  # the backward pass is compared too
    varying: int = 0  # a size that changes between runs of one compiled program; 0: none
    transform: str = ""  # of JAX programs, by name (`transforms.py`)

    def types(self) -> list[TensorType]:
        """Return the type of every value, by number."""
        return [leaf.type for leaf in self.leaves] + [t for node in self.nodes for t in node.outputs]

    def produced(self) -> list[range]:
        """Return, for each node, the numbers of its results."""
        spans, at = [], len(self.leaves)
        for node in self.nodes:
            spans.append(range(at, at + len(node.outputs)))
            at += len(node.outputs)
        return spans

    @property
    def inputs(self) -> list[int]:
        """The numbers of the leaves that are inputs."""
        return [number for number, leaf in enumerate(self.leaves) if leaf.kind == "input"]

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(node.op for node in self.nodes)

    @property
    def coverage(self) -> tuple[tuple[str, str], ...]:
        """Every use of an operator, with the dtype of its first input."""
        types = self.types()
        return tuple((node.op, types[node.inputs[0]].dtype) for node in self.nodes)

    def without_unused_leaves(self) -> Graph:
        """Return the graph without the leaves that nothing reads, renumbered."""
        read = {number for node in self.nodes for number in node.inputs} | set(self.outputs)
        read |= {int(leaf.layout[6:]) for leaf in self.leaves if leaf.layout.startswith("alias:")}
        kept = [number for number in range(len(self.leaves)) if number in read]
        if len(kept) == len(self.leaves):
            return self
        total = len(self.types())
        new = {old: at for at, old in enumerate([*kept, *range(len(self.leaves), total)])}
        leaves = [self.leaves[number] for number in kept]
        leaves = [
            replace(leaf, layout=f"alias:{new[int(leaf.layout[6:])]}") if leaf.layout.startswith("alias:") else leaf
            for leaf in leaves
        ]
        nodes = [replace(node, inputs=tuple(new[i] for i in node.inputs)) for node in self.nodes]
        return replace(self, leaves=tuple(leaves), nodes=tuple(nodes), outputs=tuple(new[o] for o in self.outputs))

    def to_json(self) -> dict[str, Any]:
        return {
            "leaves": [leaf.to_json() for leaf in self.leaves],
            "nodes": [node.to_json() for node in self.nodes],
            "outputs": list(self.outputs),
            "grad": self.grad,
            "varying": self.varying,
            **({"transform": self.transform} if self.transform else {}),
        }

    def to_text(self) -> str:
        return json.dumps(self.to_json())

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Graph:
        return Graph(
            tuple(Leaf.from_json(leaf) for leaf in value["leaves"]),
            tuple(Node.from_json(node) for node in value["nodes"]),
            tuple(value["outputs"]),
            value["grad"],
            value["varying"],
            value.get("transform", ""),
        )


def _plain(value: Any) -> Any:
    """Return a JSON value: NaN and infinities are written as text."""
    return {"float": repr(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _python(value: Any) -> Any:
    return float(value["float"]) if isinstance(value, dict) else value


def value_name(graph: Graph, number: int) -> str:
    """Return the name of a value in emitted programs: x for inputs, w for parameters, c for constants, v for
    results."""
    if number >= len(graph.leaves):
        return f"v{number - len(graph.leaves)}"
    return {"input": "x", "parameter": "w", "constant": "c"}[graph.leaves[number].kind] + str(number)
