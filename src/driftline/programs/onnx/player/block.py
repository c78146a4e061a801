"""The player's form of graphs and functions, with attributes and constants read in advance."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftline.programs.onnx.file import is_external
from driftline.programs.onnx.player.literals import tensor_of


@dataclass(frozen=True)
class AttributeReference:
    """An attribute of a function's node whose value comes from the call of the function."""

    name: str


@dataclass(frozen=True)
class BlockNode:
    """One node of a block; `proto` is the NodeProto that it was read from."""

    op_type: str
    domain: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    proto: Any

    def attributes_with(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes with the caller's values filled in; those that the caller did not give are left out."""
        if not any(isinstance(value, AttributeReference) for value in self.attributes.values()):
            return self.attributes
        found = {k: given.get(v.name) if isinstance(v, AttributeReference) else v for k, v in self.attributes.items()}
        return {key: value for key, value in found.items() if value is not None}


@dataclass(frozen=True)
class Block:
    """A graph, or the body of a function, in the player's form."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[BlockNode, ...]
    constants: dict[str, Any]
    declared: tuple[Any, ...] = ()  # the ValueInfoProtos of a graph's outputs


def read_graph(graph: Any, folder: Path | None = None) -> Block:
    return Block(
        tuple(value.name for value in graph.input),
        tuple(value.name for value in graph.output),
        tuple(_read_node(node, folder) for node in graph.node),
        {tensor.name: tensor_of(tensor, folder) for tensor in graph.initializer},
        tuple(graph.output),
    )


def read_function(function: Any, folder: Path | None = None) -> Block:
    nodes = tuple(_read_node(node, folder) for node in function.node)
    return Block(tuple(function.input), tuple(function.output), nodes, {})


def domain_of(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _read_node(node: Any, folder: Path | None) -> BlockNode:
    from onnx import AttributeProto, helper

    def read(attribute: Any) -> Any:
        if attribute.ref_attr_name:
            return AttributeReference(attribute.ref_attr_name)
        if attribute.type == AttributeProto.GRAPH:
            return read_graph(attribute.g, folder)
        if attribute.type == AttributeProto.TENSOR and is_external(attribute.t):
            return tensor_of(attribute.t, folder)
        return helper.get_attribute_value(attribute)

    return BlockNode(
        node.op_type,
        domain_of(node.domain),
        node.name,
        tuple(node.input),
        tuple(node.output),
        {attribute.name: read(attribute) for attribute in node.attribute},
        node,
    )


def last_uses(block: Block) -> dict[int, list[str]]:
    """Return for each node the values that are not used after it."""
    last: dict[str, int] = {}
    for number, node in enumerate(block.nodes):
        for name in _names_read(node):
            last[name] = number
    kept = {*block.outputs, *block.constants, ""}
    dying: dict[int, list[str]] = {}
    for name, number in last.items():
        if name not in kept:
            dying.setdefault(number, []).append(name)
    return dying


def _names_read(node: BlockNode) -> list[str]:
    names = list(node.inputs)
    for value in node.attributes.values():
        if isinstance(value, Block):
            for inner in value.nodes:
                names += _names_read(inner)
            names += value.outputs  # a branch may return a value from around it
    return names
