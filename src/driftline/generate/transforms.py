"""Transformations of JAX applied to generated programs: `vmap`, `grad`, `scan` and `cond` of the program's function.

A transformed program takes the same inputs as the plain one, so it is reduced, executed and named in the same way.
Where a transformation needs several samples, the second one is the first with its elements reversed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from driftline.core.identity import WITH_GRADIENT
from driftline.generate.base import GeneratorRequest
from driftline.generate.graph import Graph, value_name
from driftline.generate.operator import FLOATS
from driftline.generate.table import OPERATORS

GRADIENT = "grad"
LOOPS = ("scan", "cond")
BATCHES = ("vmap", "vmap_last")  # all inputs along the first axis; the first input alone, along the last one
TRANSFORMS = (*BATCHES, GRADIENT, *LOOPS)
INNER = "plain"  # the name of the function that is transformed
_SHARE = 0.25


def drawn_transform(graph: Graph, request: GeneratorRequest) -> Graph:
    """Return the graph, for JAX sometimes under a transformation. Drawn from its own seed, so that the graphs of a seed
    do not change."""
    rng = random.Random(f"{request.seed}/{request.arm}/{request.number}/transformation")
    if request.form != "jax" or rng.random() >= _SHARE:
        return graph
    return under(graph, rng.choice(TRANSFORMS))


def under(graph: Graph, name: str) -> Graph:
    """Return the graph under a transformation, or without any if the graph does not allow it."""
    possible = not name or (has_gradient(graph) if name == GRADIENT else bool(graph.inputs))
    return replace(graph, transform=name if possible else "")


def has_gradient(graph: Graph) -> bool:
    """True if the program is differentiable, with float inputs and outputs."""
    types = graph.types()
    smooth = all(OPERATORS[node.op].differentiable for node in graph.nodes)
    return smooth and bool(_floats(graph, graph.inputs)) and any(types[n].dtype in FLOATS for n in graph.outputs)


def circumstance(name: str) -> str:
    """Return the words in the name of a bug that needs the transformation: `with gradient`, `under vmap`."""
    return WITH_GRADIENT if name == GRADIENT else f"under {name.partition('_')[0]}"


def call_text(graph: Graph) -> list[str]:
    """Return the body of the function that applies the transformation to `plain`."""
    names = [value_name(graph, number) for number in graph.inputs]
    given = ", ".join(names)
    samples = f"[jnp.stack([x, jnp.flip(x)]) for x in ({given},)]"
    if graph.transform == "vmap":
        return [f"return jax.vmap({INNER})(*{samples})"]
    if graph.transform == "vmap_last":
        axes = f"(-1, {'None, ' * (len(names) - 1)})"
        first = f"jnp.stack([{names[0]}, jnp.flip({names[0]})], axis=-1)"
        return [f"return jax.vmap({INNER}, in_axes={axes})({', '.join([first, *names[1:]])})"]
    if graph.transform == "scan":
        return [f"return lax.scan(lambda count, xs: (count + 1, {INNER}(*xs)), 0, {samples})"]
    if graph.transform == "cond":
        other = f"lambda *xs: {INNER}(*map(jnp.flip, xs))"
        return [f"return lax.cond(jnp.any({names[0]}.real > 0), {INNER}, {other}, {given})"]
    assert graph.transform == GRADIENT
    moved = ", ".join(value_name(graph, number) for number in _floats(graph, graph.inputs))
    types = graph.types()
    kept = ", ".join(f"made[{at}]" for at, number in enumerate(graph.outputs) if types[number].dtype in FLOATS)
    return [
        f"def floats({moved}):",
        f"    made = {INNER}({given})",
        f"    return [{kept}]",
        "",
        f"results, pull = jax.vjp(floats, {moved})",
        "slopes = [jnp.asarray(jnp.arange(v.size) % 5 - 2, v.dtype).reshape(v.shape) for v in results]",
        "return results, pull(slopes)",
    ]


def _floats(graph: Graph, numbers: Sequence[int]) -> list[int]:
    types = graph.types()
    return [number for number in numbers if types[number].dtype in FLOATS]
