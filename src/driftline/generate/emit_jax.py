"""A graph as a JAX program: Python text over jax.numpy."""

from __future__ import annotations

from driftline.generate.emit_torch import numbers_text
from driftline.generate.graph import Graph, value_name
from driftline.generate.operator import Use, emit_text
from driftline.generate.table import OPERATORS

_HEAD = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)
"""


def emit_jax(graph: Graph) -> str:
    """A file with a factory `program` that returns (callable, example inputs)."""
    types = graph.types()
    inputs = [value_name(graph, number) for number in graph.inputs]
    lines = [_HEAD, ""]
    lines += [
        f"{value_name(graph, number)} = jnp.asarray({numbers_text(leaf)}).astype(jnp.{jnp_dtype(leaf.type.dtype)})"
        for number, leaf in enumerate(graph.leaves)
        if leaf.kind != "input"
    ]
    lines += ["", "", f"def model({', '.join(inputs)}):"]
    for node, produced in zip(graph.nodes, graph.produced(), strict=True):
        form = OPERATORS[node.op].jnp
        assert form, f"{node.op} has no jnp form"
        names = [value_name(graph, number) for number in node.inputs]
        use = Use(names, [types[number] for number in node.inputs], node.outputs, node.attributes)
        left = ", ".join(value_name(graph, number) for number in produced)
        lines.append(f"    {left} = {emit_text(form.emit, use)}")
    lines.append(f"    return {''.join(value_name(graph, number) + ', ' for number in graph.outputs)}".rstrip())
    lines += ["", "", "def program():"]
    made = [f"jnp.zeros({types[number].shape}, dtype=jnp.{jnp_dtype(types[number].dtype)})" for number in graph.inputs]
    lines += [f"    return model, ({''.join(text + ', ' for text in made)})", ""]
    return "\n".join(lines)


def jnp_dtype(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype
