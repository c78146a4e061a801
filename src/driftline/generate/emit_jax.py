"""A graph as a JAX program: Python text over jax.numpy."""

from __future__ import annotations

from driftline.generate.emit_python import numbers_text, statements
from driftline.generate.graph import Graph, value_name

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
    lines += [f"    {line}" for line in statements(graph, "jnp")]
    lines += ["", "", "def program():"]
    made = [f"jnp.zeros({types[number].shape}, dtype=jnp.{jnp_dtype(types[number].dtype)})" for number in graph.inputs]
    lines += [f"    return model, ({''.join(text + ', ' for text in made)})", ""]
    return "\n".join(lines)


def jnp_dtype(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype
