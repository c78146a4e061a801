"""Write a graph as an ONNX model, node by node, without an exporter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftline.core.tensors import Array, numpy_dtype
from driftline.generate.emit_python import numbers_text
from driftline.generate.graph import Graph, Leaf, value_name
from driftline.generate.operator import Use
from driftline.generate.table import OPERATORS

OPSET = 18  # old enough for every ONNX Runtime that installs today: a bug can be bisected over releases
IR_VERSION = 8


class OnnxWriter:
    """Collects nodes and initializers. The ONNX forms of operators add to it."""

    def __init__(self) -> None:
        import onnx.helper

        self._helper = onnx.helper
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self._count = 0

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node. Returns the name of its result, or a list of names if `outputs` is more than one."""
        names = [self.fresh() for _ in range(outputs)]
        self.nodes.append(self._helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def ints(self, values: Sequence[int]) -> str:
        """Add a constant of int64 values: axes, shapes, pads."""
        return self.array(np.array(list(values), dtype=np.int64))

    def scalar(self, value: Any, dtype: str) -> str:
        """Add a scalar constant and return its name."""
        return self.array(np.array(value).astype(numpy_dtype(dtype)))

    def array(self, values: Array, name: str = "") -> str:
        """Add a constant to the model and return its name."""
        name = name or self.fresh()
        self.initializers.append(onnx_tensor(values, name))
        return name

    def cast(self, value: str, dtype: str) -> str:
        return str(self.node("Cast", value, to=element_type(dtype)))

    def fresh(self) -> str:
        self._count += 1
        return f"t{self._count}"


def emit_onnx(graph: Graph) -> bytes:
    """Return the serialised model. Inputs have the same names as in the torch form of the graph."""
    import onnx
    import onnx.helper

    writer = OnnxWriter()
    types = graph.types()
    names = [value_name(graph, number) for number in range(len(types))]
    for number, leaf in enumerate(graph.leaves):
        if leaf.kind != "input":
            writer.array(leaf_numbers(leaf), names[number])
    for node, produced in zip(graph.nodes, graph.produced(), strict=True):
        use = Use(
            [names[number] for number in node.inputs],
            [types[number] for number in node.inputs],
            node.outputs,
            node.attributes,
        )
        for number, made in zip(produced, apply(writer, node.op, use), strict=True):
            names[number] = made
    outputs = []
    for position, number in enumerate(graph.outputs):
        # A name of its own for each: a value may be returned twice, and an input may be an output
        name = f"output{position}"
        writer.nodes.append(onnx.helper.make_node("Identity", [names[number]], [name]))
        outputs.append(_value_info(graph, name, number, types))
    made = onnx.helper.make_graph(
        writer.nodes,
        "driftline",
        [_value_info(graph, names[number], number, types) for number in graph.inputs],
        outputs,
        writer.initializers,
    )
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(made, opset_imports=opsets, ir_version=IR_VERSION, producer_name="driftline")
    return bytes(model.SerializeToString())


def apply(writer: OnnxWriter, op: str, use: Use) -> Sequence[str]:
    """Write one operator of the table, and return the names of its results."""
    form = OPERATORS[op].onnx
    assert form, f"{op} has no ONNX form"
    made = writer.node(form.emit, *use.inputs) if isinstance(form.emit, str) else form.emit(writer, use)
    return [made] if isinstance(made, str) else list(made)


def _value_info(graph: Graph, name: str, number: int, types: Sequence[Any]) -> Any:
    import onnx.helper

    shape: list[Any] = ["N" if graph.varying and size == graph.varying else size for size in types[number].shape]
    if graph.varying and number >= len(graph.leaves):
        shape = [None] * len(shape)  # a result may depend on the varying size in many ways
    return onnx.helper.make_tensor_value_info(name, element_type(types[number].dtype), shape)


def leaf_numbers(leaf: Leaf) -> Array:
    """Return the numbers of a parameter or constant, the same as in the torch form of the graph."""
    made: Array = np.asarray(eval(numbers_text(leaf), {"np": np}))
    return made.astype(numpy_dtype(leaf.type.dtype))


def element_type(dtype: str) -> int:
    import onnx.helper

    return int(onnx.helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype)))


def onnx_tensor(values: Array, name: str) -> Any:
    import onnx.helper

    return onnx.helper.make_tensor(
        name, element_type(values.dtype.name), values.shape, np.ascontiguousarray(values).tobytes(), raw=True
    )
