"""A graph as a TensorFlow program: Python text over tf, a plain function of eager tensors."""

from __future__ import annotations

from driftline.generate.emit_python import numbers_text, statements
from driftline.generate.graph import Graph, value_name

_HEAD = """\
import numpy as np
import tensorflow as tf
"""


def emit_tensorflow(graph: Graph) -> str:
    """A file with a factory `program` that returns (callable, example inputs)."""
    types = graph.types()
    inputs = [value_name(graph, number) for number in graph.inputs]
    lines = [_HEAD, ""]
    lines += [
        f"{value_name(graph, number)} = tf.constant({numbers_text(leaf)}, tf.{leaf.type.dtype})"
        for number, leaf in enumerate(graph.leaves)
        if leaf.kind != "input"
    ]
    lines += ["", "", f"def model({', '.join(inputs)}):"]
    lines += [f"    {line}" for line in statements(graph, "tf")]
    lines += ["", "", "def program():"]
    made = [f"tf.zeros({list(types[number].shape)}, tf.{types[number].dtype})" for number in graph.inputs]
    lines += [f"    return model, ({''.join(text + ', ' for text in made)})", ""]
    return "\n".join(lines)
