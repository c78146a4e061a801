"""Write a graph as a JAX program: Python text over jax.numpy."""

from __future__ import annotations

from driftline.generate.emit_python import factory_file, numbers_text
from driftline.generate.graph import Graph
from driftline.generate.transforms import call_text

_HEAD = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)
"""


def emit_jax(graph: Graph) -> str:
    """Return the text of a JAX program for the graph."""
    return factory_file(
        graph,
        _HEAD,
        "jnp",
        lambda leaf: f"jnp.asarray({numbers_text(leaf)}).astype(jnp.{jnp_dtype(leaf.type.dtype)})",
        lambda kind: f"jnp.zeros({kind.shape}, dtype=jnp.{jnp_dtype(kind.dtype)})",
        call_text(graph) if graph.transform else (),
    )


def jnp_dtype(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype
