"""Idioms with branches and loops, whose subgraphs read values from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from driftline.generate.emit_onnx import element_type
from driftline.generate.idioms.sketch import Sketch, idiom

_Declared = tuple[str, str, tuple[int, ...]]  # name, dtype, shape


def _subgraph(name: str, nodes: Sequence[Any], inputs: Sequence[_Declared], outputs: Sequence[_Declared]) -> Any:
    from onnx import helper

    def declared(values: Sequence[_Declared]) -> list[Any]:
        return [helper.make_tensor_value_info(value, element_type(dtype), shape) for value, dtype, shape in values]

    return helper.make_graph(list(nodes), name, declared(inputs), declared(outputs))


def _unary(s: Sketch) -> str:
    return s.rng.choice(["Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Exp", "Softplus"])


@idiom
def branch(s: Sketch) -> str:
    """Draw a branch on a computed condition, whose two subgraphs read a value from outside."""
    from onnx import helper

    x = s.node("Abs", s.input(2, 3)) if s.rng.random() < 0.5 else s.node("Neg", s.input(2, 3))
    positive = s.node("Greater", s.node("ReduceSum", x, keepdims=0), s.const(0.5))
    yes = _subgraph("yes", [helper.make_node(_unary(s), [x], ["made"])], [], [("made", "float32", (2, 3))])
    no = _subgraph("no", [helper.make_node(_unary(s), [x], ["other"])], [], [("other", "float32", (2, 3))])
    return str(s.node("Mul", s.node("If", positive, then_branch=yes, else_branch=no), s.const(2.0)))


@idiom
def counted_loop(s: Sketch) -> Sequence[str]:
    """Draw a loop that carries a value and collects one row of each step."""
    from onnx import helper

    x = s.input(2, 3)
    outside = s.node("Relu", s.input(2, 3))
    nodes = [
        helper.make_node(_unary(s), ["carried"], ["changed"]),
        helper.make_node("Add", ["changed", outside], ["next"]),
        helper.make_node("Identity", ["go_on"], ["still"]),
        helper.make_node("Neg", ["next"], ["kept"]),
    ]
    body = _subgraph(
        "body",
        nodes,
        [("step", "int64", ()), ("go_on", "bool", ()), ("carried", "float32", (2, 3))],
        [("still", "bool", ()), ("next", "float32", (2, 3)), ("kept", "float32", (2, 3))],
    )
    steps = s.rng.choice([1, 2, 3])
    last, kept = s.node("Loop", s.const(steps, "int64"), s.const(True, "bool"), x, outputs=2, body=body)
    # What a loop carries has no shape for the standard's inference.
    return [s.node("Reshape", last, s.ints(2, 3)), s.node("Reshape", kept, s.ints(steps, 2, 3))]


@idiom
def scan_over_rows(s: Sketch) -> Sequence[str]:
    from onnx import helper

    start, rows = s.input(3), s.input(4, 3)
    nodes = [
        helper.make_node("Add", ["carried", "row"], ["sum"]),
        helper.make_node(_unary(s), ["sum"], ["next"]),
        helper.make_node("Neg", ["sum"], ["kept"]),
    ]
    row = (3,)
    body = _subgraph(
        "body",
        nodes,
        [("carried", "float32", row), ("row", "float32", row)],
        [("next", "float32", row), ("kept", "float32", row)],
    )
    return list(s.node("Scan", start, rows, outputs=2, body=body, num_scan_inputs=1))
