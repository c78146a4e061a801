"""Write a graph as a TensorFlow program: Python text over tf, a plain function of eager tensors."""

from __future__ import annotations

from driftline.generate.emit_python import factory_file, numbers_text
from driftline.generate.graph import Graph

_HEAD = """\
import numpy as np
import tensorflow as tf
"""


def emit_tensorflow(graph: Graph) -> str:
    """Return the text of a TensorFlow program for the graph."""
    return factory_file(
        graph,
        _HEAD,
        "tf",
        lambda leaf: f"tf.constant({numbers_text(leaf)}, tf.{leaf.type.dtype})",
        lambda kind: f"tf.zeros({list(kind.shape)}, tf.{kind.dtype})",
    )
