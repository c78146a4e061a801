"""Turn a graph into a program in one of the languages, with the plan of its inputs."""

from __future__ import annotations

from collections.abc import Mapping

from driftline.core.tensors import TensorSpec
from driftline.generate.base import Blueprint
from driftline.generate.graph import Graph, value_name
from driftline.generate.table import OPERATORS
from driftline.inputs.plan import InputPlan

# The languages of the operator table, by the form of the programs.
LANGUAGE = {"torch": "torch", "onnx": "onnx", "jax": "jnp", "tensorflow": "tf"}


def blueprint(graph: Graph, form: str, sizes: tuple[Mapping[str, tuple[int, ...]], ...] = ()) -> Blueprint:
    """Return the graph as a program in the format `form`. `sizes` are further shapes of its inputs."""
    plans = []
    for number in graph.inputs:
        leaf = graph.leaves[number]
        plans.append(InputPlan(TensorSpec(value_name(graph, number), leaf.type.dtype, leaf.type.shape), leaf.values))
    return Blueprint(
        form=form,
        content=emit(graph, form),
        inputs=tuple(plans),
        operators=graph.operators,
        coverage=graph.coverage,
        graph=graph,
        grad=graph.grad,
        edges=tuple(sorted({edge for node in graph.nodes for edge in OPERATORS[node.op].edges})),
        sizes=sizes,
    )


def emit(graph: Graph, form: str) -> str | bytes:
    """Return the text (or ONNX bytes) of the graph in a format. Imports onnx only for ONNX."""
    if form == "torch":
        from driftline.generate.emit_torch import emit_torch

        return emit_torch(graph)
    if form == "jax":
        from driftline.generate.emit_jax import emit_jax

        return emit_jax(graph)
    if form == "tensorflow":
        from driftline.generate.emit_tensorflow import emit_tensorflow

        return emit_tensorflow(graph)
    from driftline.generate.emit_onnx import emit_onnx

    return emit_onnx(graph)
