"""Runs a model: its nodes in order, the graphs inside them, and its own functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from driftline.programs.onnx.player import (  # noqa: F401  each registers its operators
    control,
    convolution,
    elementwise,
    indexing,
    matrices,
    microsoft,
    norms,
    quantised,
    recurrent,
    reductions,
    resize,
    shapes,
)
from driftline.programs.onnx.player.block import Block, BlockNode, domain_of, last_uses, read_function, read_graph
from driftline.programs.onnx.player.call import OPERATORS, NodeCall, Unplayable, Value
from driftline.programs.onnx.player.fallback import evaluate_node, function_body, function_defaults, resolved

Scope = dict[str, Value]
NodeWatcher = Callable[[BlockNode, Sequence[Value]], None]  # a node and its results


class OnnxPlayer:
    """An ONNX model that can be run on torch tensors."""

    def __init__(self, model: Any, folder: Path | None = None, *, alone: bool = False) -> None:
        """`alone`: raise `Unplayable` for operators that otherwise run in the standard's evaluator."""
        self._alone = alone
        if model.graph.sparse_initializer:
            raise Unplayable("sparse initialisers")
        self._opsets = _opsets(model)
        self._block = read_graph(model.graph, folder)
        self._functions = {
            (domain_of(f.domain), f.name): (read_function(f, folder), _opsets(f), _defaults(f)) for f in model.functions
        }
        self._last_use = last_uses(self._block)
        self.input_names = [name for name in self._block.inputs if name not in self._block.constants]
        self.output_names = list(self._block.outputs)

    def run(self, feed: Mapping[str, Value], watch: NodeWatcher | None = None) -> dict[str, Value]:
        """Run the model and return all outputs by name; `watch` is called for each node of the main graph."""
        missing = [name for name in self.input_names if name not in feed]
        if missing:
            raise ValueError(f"the inputs {', '.join(missing)} are missing")
        scope: Scope = {"": None, **self._block.constants, **feed}
        with torch.no_grad():
            for number, node in enumerate(self._block.nodes):
                results = self._node(node, scope, self._opsets, {})
                if watch:
                    watch(node, results)
                for name in self._last_use.get(number, ()):  # a large model's values need not all be kept
                    scope.pop(name, None)
        return {name: scope[name] for name in self.output_names}

    def _node(self, node: BlockNode, scope: Scope, opsets: Mapping[str, int], given: dict[str, Any]) -> list[Value]:
        inputs = [scope[name] for name in node.inputs]
        attributes = node.attributes_with(given)
        function = self._functions.get((node.domain, node.op_type))
        if function is not None:
            results = self._call(*function, inputs, attributes)
        else:
            results = self._operator(node, inputs, attributes, scope, opsets)
        scope.update((name, value) for name, value in zip(node.outputs, results, strict=False) if name)
        return results

    def _operator(
        self, node: BlockNode, inputs: list[Value], attributes: dict[str, Any], scope: Scope, opsets: Mapping[str, int]
    ) -> list[Value]:
        opset = opsets.get(node.domain, 1)
        implementation = OPERATORS.get((node.domain, node.op_type))
        unknown = Unplayable(f"{node.domain or 'ai.onnx'}.{node.op_type}")
        if implementation is not None:

            def play_block(block: Block, values: Sequence[Value]) -> list[Value]:
                return self._inner(block, values, scope, opsets)

            call = NodeCall(node.op_type, node.domain, opset, attributes, node.outputs, play_block)
            given = list(inputs)
            while given and given[-1] is None:
                given.pop()
            try:
                made = implementation(call, *given)
                return list(made) if isinstance(made, (tuple, list)) else [made]
            except Unplayable as reason:
                unknown = reason
            except (NotImplementedError, RuntimeError) as error:
                if "not implemented for" not in str(error):
                    raise
                unknown = Unplayable(str(error))  # a dtype that torch does not compute in
        else:
            body = function_body(resolved(node.proto, attributes), opset, inputs)
            if body is not None:
                defaults = function_defaults(node.proto, opset)
                return self._call(read_function(body), _opsets(body) or opsets, defaults, inputs, attributes)
        if self._alone:
            raise unknown
        try:
            return evaluate_node(resolved(node.proto, attributes), opset, inputs)
        except Unplayable:
            raise unknown from None

    def _inner(self, block: Block, values: Sequence[Value], outer: Scope, opsets: Mapping[str, int]) -> list[Value]:
        """Run a graph inside a node; it sees the values around it."""
        scope = {**outer, **block.constants}
        scope.update(zip(block.inputs, values, strict=False))
        for node in block.nodes:
            self._node(node, scope, opsets, {})
        return [scope[name] for name in block.outputs]

    def _call(
        self, body: Block, opsets: Mapping[str, int], defaults: dict[str, Any], inputs: Sequence[Value],
        attributes: dict[str, Any],
    ) -> list[Value]:  # fmt: skip
        """Run a function; it sees its arguments only."""
        scope: Scope = {"": None, **dict.fromkeys(body.inputs)}
        scope.update(zip(body.inputs, inputs, strict=False))
        for node in body.nodes:
            self._node(node, scope, opsets, defaults | attributes)
        return [scope.get(name) for name in body.outputs]


def _opsets(owner: Any) -> dict[str, int]:
    return {domain_of(o.domain): int(o.version) for o in owner.opset_import}


def _defaults(function: Any) -> dict[str, Any]:
    from onnx import helper

    return {attribute.name: helper.get_attribute_value(attribute) for attribute in function.attribute_proto}
