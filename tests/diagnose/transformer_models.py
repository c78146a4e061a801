"""A small transformer encoder as an ONNX model, written by hand with the node names that exporters give."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, TOKENS = 16, 4, 6


class _Writer:
    def __init__(self, seed: int) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._rng = np.random.default_rng(seed)

    def weight(self, name: str, *shape: int) -> str:
        values = self._rng.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(shape[0]))
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def constant(self, name: str, values: Any) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, scope: str, op: str, *inputs: str, **attributes: Any) -> str:
        name, number = f"/{scope}/{op}", 0
        while any(node.name == name for node in self.nodes):
            number += 1
            name = f"/{scope}/{op}_{number}"
        self.nodes.append(helper.make_node(op, list(inputs), [f"{name}_output_0"], name=name, **attributes))
        return f"{name}_output_0"

    def linear(self, scope: str, value: str, into: int, out: int) -> str:
        product = self.add(scope, "MatMul", value, self.weight(f"{scope.replace('/', '.')}.weight", into, out))
        return self.add(scope, "Add", product, self.weight(f"{scope.replace('/', '.')}.bias", out))

    def norm(self, scope: str, value: str) -> str:
        name = scope.replace("/", ".")
        one = self.constant(f"{name}.weight", np.ones(WIDTH, np.float32))
        return self.add(scope, "LayerNormalization", value, one, self.weight(f"{name}.bias", WIDTH), axis=-1)

    def heads(self, scope: str, value: str, order: list[int]) -> str:
        shape = self.constant(f"{scope}.{value}.heads", np.array([1, TOKENS, HEADS, WIDTH // HEADS], np.int64))
        return self.add(scope, "Transpose", self.add(scope, "Reshape", value, shape), perm=order)

    def attention(self, scope: str, value: str) -> str:
        query, key, values = (self.linear(f"{scope}/{n}", value, WIDTH, WIDTH) for n in ("query", "key", "value"))
        scores = self.add(scope, "MatMul", self.heads(scope, query, [0, 2, 1, 3]), self.heads(scope, key, [0, 2, 3, 1]))
        scaled = self.add(scope, "Mul", scores, self.constant(f"{scope}.scale", np.float32(0.5)))
        weights = self.add(scope, "Softmax", scaled, axis=-1)
        mixed = self.add(scope, "MatMul", weights, self.heads(scope, values, [0, 2, 1, 3]))
        together = self.add(scope, "Transpose", mixed, perm=[0, 2, 1, 3])
        shape = self.constant(f"{scope}.flat", np.array([1, TOKENS, WIDTH], np.int64))
        return self.linear(f"{scope}/output", self.add(scope, "Reshape", together, shape), WIDTH, WIDTH)


def transformer(layers: int = 4, seed: int = 0) -> Any:
    """An encoder of `layers` blocks named `encoder/layer.N`, as a ModelProto."""
    write = _Writer(seed)
    value = "x"
    for number in range(layers):
        scope = f"encoder/layer.{number}"
        value = write.norm(
            f"{scope}/norm1", write.add(scope, "Add", value, write.attention(f"{scope}/attention", value))
        )
        hidden = write.add(f"{scope}/mlp", "Relu", write.linear(f"{scope}/mlp/up", value, WIDTH, 2 * WIDTH))
        down = write.linear(f"{scope}/mlp/down", hidden, 2 * WIDTH, WIDTH)
        value = write.norm(f"{scope}/norm2", write.add(scope, "Add", value, down))
    write.nodes.append(helper.make_node("Identity", [value], ["y"], name="/Identity"))
    shape = [1, TOKENS, WIDTH]
    graph = helper.make_graph(
        write.nodes,
        "encoder",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        write.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def swap_heads(model: Any, layer: int, projection: str = "query") -> Any:
    """The model with the weights of two heads of one layer exchanged, as a broken conversion would."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    name = f"encoder.layer.{layer}.attention.{projection}.weight"
    tensor = next(t for t in changed.graph.initializer if t.name == name)
    values = numpy_helper.to_array(tensor).copy()
    head = WIDTH // HEADS
    values[:, :head], values[:, head : 2 * head] = values[:, head : 2 * head].copy(), values[:, :head].copy()
    tensor.CopyFrom(numpy_helper.from_array(values, name))
    return changed
