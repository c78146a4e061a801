"""The abstract graph: nodes with inputs, outputs and attributes, and values with a dtype and a shape.

Adapters convert FX graphs, ONNX models and generated programs to and from this graph; the reduction uses only this
form. Values are numbered. The content of a leaf is named by `data`, a key of `Values`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

from driftline.core.wire import own_form
from driftline.diagnose.reduce.order import ProgramSize, attribute_weight, dtype_rank


@own_form
@dataclass(frozen=True)
class ValueType:
    """The type of a value. `strides` is empty for a contiguous layout."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()

    def fits(self, other: ValueType | None) -> bool:
        """True if a value of the other type could replace one of this type: dtype and shape are equal."""
        return other is not None and (self.dtype, self.shape) == (other.dtype, other.shape)

    def to_json(self) -> list[Any]:
        return [self.dtype, list(self.shape), list(self.strides)]

    @staticmethod
    def from_json(value: list[Any]) -> ValueType:
        return ValueType(value[0], tuple(value[1]), tuple(value[2]))


@dataclass(frozen=True)
class ProgramLeaf:
    """An input, or a constant that the program owns."""

    number: int
    type: ValueType
    data: str
    constant: bool = False
    roughness: int = 0  # how far its numbers are from round ones; see `values.roughness`


@dataclass(frozen=True)
class ProgramNode:
    """One operation. `None` among the inputs is an omitted optional input."""

    op: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    effects: bool = False  # it writes into memory: it matters even when nothing reads its result
    free: bool = False  # it takes a result apart and is not counted as an operator

    @property
    def operands(self) -> list[int]:
        return [number for number in self.inputs if number is not None]


def short_name(op: str) -> str:
    """Return the bare name of an operator: relu for `torch.nn.functional.relu`, `.relu_` and
    `torch.ops.aten.relu.default`, Gelu for `com.microsoft::Gelu`.
    """
    if "::" in op:
        return op.rpartition("::")[2]
    parts = op.removeprefix("torch.ops.").split(".")
    return parts[1] if op.startswith("torch.ops.") else parts[-1].strip("_") or parts[-1]


@own_form
@dataclass(frozen=True)
class ProgramGraph:
    """A program. `header` holds what else its form needs, such as the versions of operator sets."""

    leaves: tuple[ProgramLeaf, ...]
    nodes: tuple[ProgramNode, ...]
    outputs: tuple[int, ...]
    header: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def producers(self) -> dict[int, int]:
        """Map each value to the index of the node that makes it."""
        return {number: at for at, node in enumerate(self.nodes) for number in node.outputs}

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """Map each value to the indices of the nodes that read it."""
        found: dict[int, list[int]] = {}
        for at, node in enumerate(self.nodes):
            for number in node.operands:
                found.setdefault(number, []).append(at)
        return found

    @cached_property
    def leaf(self) -> dict[int, ProgramLeaf]:
        """Map the number of each leaf to the leaf."""
        return {leaf.number: leaf for leaf in self.leaves}

    @property
    def operators(self) -> list[str]:
        return [node.op for node in self.nodes if not node.free]

    @cached_property
    def key(self) -> str:
        """A hash that is equal for graphs of the same program on the same values."""
        return hashlib.sha256(json.dumps(self._canonical(), sort_keys=True).encode()).hexdigest()

    @cached_property
    def program(self) -> str:
        """A hash that is equal for graphs that differ only in the values of their inputs."""
        leaves, *rest = self._canonical()
        types = [[kind, data if constant else "", constant] for kind, data, constant in leaves]
        return hashlib.sha256(json.dumps([types, *rest], sort_keys=True).encode()).hexdigest()

    @cached_property
    def lines(self) -> list[str]:
        """The program as lines of text, to measure the difference between two programs."""
        leaves, nodes, outputs, _ = self._canonical()
        return [json.dumps(part) for part in (*leaves, *nodes, outputs)]

    @cached_property
    def size(self) -> ProgramSize:
        return ProgramSize(
            operators=len(self.operators),
            ends=len(self.leaves) + len(self.outputs) + sum(leaf.constant for leaf in self.leaves),
            elements=sum(prod(leaf.type.shape) for leaf in self.leaves),
            axes=sum(len(leaf.type.shape) for leaf in self.leaves),
            dtypes=sum(dtype_rank(leaf.type.dtype) for leaf in self.leaves),
            attributes=sum(attribute_weight(node.attributes) + len(node.operands) for node in self.nodes),
            layouts=sum(bool(leaf.type.strides) for leaf in self.leaves),
            values=sum(leaf.roughness for leaf in self.leaves),
        )

    def _canonical(self) -> tuple[list[Any], list[Any], list[int], Mapping[str, Any]]:
        names: dict[int, int] = {leaf.number: at for at, leaf in enumerate(self.leaves)}
        for node in self.nodes:
            for number in node.outputs:
                names[number] = len(names)
        leaves = [[leaf.type.to_json(), leaf.data, leaf.constant] for leaf in self.leaves]
        nodes = [
            [node.op, [None if n is None else names[n] for n in node.inputs], len(node.outputs), node.attributes]
            for node in self.nodes
        ]
        return leaves, nodes, [names[number] for number in self.outputs], self.header

    def to_json(self) -> dict[str, Any]:
        return {
            "leaves": [[v.number, v.type.to_json(), v.data, v.constant, v.roughness] for v in self.leaves],
            "nodes": [
                [n.op, list(n.inputs), list(n.outputs), dict(n.attributes), n.effects, n.free] for n in self.nodes
            ],
            "outputs": list(self.outputs),
            "header": dict(self.header),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> ProgramGraph:
        return ProgramGraph(
            tuple(ProgramLeaf(v[0], ValueType.from_json(v[1]), v[2], v[3], v[4]) for v in value["leaves"]),
            tuple(ProgramNode(n[0], tuple(n[1]), tuple(n[2]), n[3], n[4], n[5]) for n in value["nodes"]),
            tuple(value["outputs"]),
            value["header"],
        )


@dataclass(frozen=True)
class Evaluated:
    """A graph with the results of its reference run: the type of each value, and the key of its data."""

    graph: ProgramGraph
    types: Mapping[int, ValueType | None]  # None: not a tensor
    data: Mapping[int, str]
    roughness: Mapping[int, int] = field(default_factory=dict)

    def as_leaf(self, number: int) -> ProgramLeaf | None:
        """Return a value as an input that holds the reference run's result, or None if that is not known."""
        known = self.types.get(number)
        if known is None or number not in self.data:
            return None
        return ProgramLeaf(number, known, self.data[number], roughness=self.roughness.get(number, 0))


def without_dead_code(
    leaves: Iterable[ProgramLeaf], nodes: Iterable[ProgramNode], outputs: Iterable[int], header: Mapping[str, Any]
) -> ProgramGraph:
    """Return the program without nodes that neither the outputs need nor write into memory. Leaves are ordered by their
    first use.
    """
    outputs = tuple(dict.fromkeys(outputs))
    needed = set(outputs)
    alive: list[ProgramNode] = []
    for node in reversed(list(nodes)):
        if node.effects or needed & set(node.outputs):
            needed |= set(node.operands)
            alive.append(node)
    alive.reverse()
    reads = dict.fromkeys(number for node in alive for number in node.operands)
    order = {number: at for at, number in enumerate([*reads, *outputs])}
    used = {leaf.number: leaf for leaf in leaves if leaf.number in needed}
    return ProgramGraph(
        tuple(sorted(used.values(), key=lambda leaf: order[leaf.number])), tuple(alive), outputs, header
    )
