"""Decides whether two ONNX models compute the same in the same way."""

from __future__ import annotations

import hashlib


def graph_signature(data: bytes) -> str:
    """Return a hash of the computation of a model, which ignores the names of values and the order of nodes."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load_model_from_string(data).graph
    known = {info.name: f"input {info.name}" for info in graph.input}
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        known[tensor.name] = f"{array.dtype}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"
    nodes = []
    for node in graph.node:  # in an order in which they can be run
        attributes = sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
        text = repr((node.domain, node.op_type, attributes, [known.get(name, name) for name in node.input]))
        digest = hashlib.sha256(text.encode()).hexdigest()
        nodes.append(digest)
        for place, name in enumerate(node.output):
            known[name] = f"{digest}:{place}"
    return hashlib.sha256(repr((sorted(nodes), [known[o.name] for o in graph.output])).encode()).hexdigest()
