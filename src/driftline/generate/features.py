"""Features of a program that compilers handle specially: layouts, sizes, gradients, loops, small and complex numbers.

They are read from the program, whatever generated it. A hunt counts the features of the programs it judged, by
generator (`TurnBody.features`); docs/explanation/features.md lists which generator writes which.
"""

from __future__ import annotations

import itertools
import re

from driftline.generate.base import Blueprint
from driftline.generate.graph import Graph
from driftline.generate.table import OPERATORS
from driftline.generate.transforms import GRADIENT, LOOPS

LONG = 64  # a longer axis is one
_TEXT = {
    "branch or loop": re.compile(r"while_loop|lax\.(cond|scan)|\bfor \w+ in "),
    "step of training": re.compile(r"grad_and_value|value_and_grad|alpha=-"),
    "transformation": re.compile(r"vmap|jax\.(grad|value_and_grad)|torch\.func"),
    "write in place": re.compile(r"\.\w+[a-z]_\("),
    "write through a view": re.compile(r"part\.\w+_\(|\]\.copy_\("),
    "outputs that share memory": re.compile(r"return (\w+), \1(\.t\(\)|\[)|return base, part"),
    "float8": re.compile(r"float8_"),
    "complex": re.compile(r"\bcomplex|\d+j\b|fft"),
    "quantised": re.compile(r"torch\.int8"),
}
_LOOPS = {"If", "Loop", "Scan"}
_QUANTISED = re.compile(r"Quantize|Integer")


def features_of(made: Blueprint) -> tuple[str, ...]:
    """Return the names of the features that a program has."""
    shapes = [plan.spec.shape for plan in made.inputs]
    dtypes = {plan.spec.dtype for plan in made.inputs} | {dtype for _, dtype in made.coverage}
    found = {
        "gradient": made.grad,
        "several sizes": bool(made.sizes),
        "long axis": any(size > LONG for shape in shapes for size in shape),
        "empty input": any(0 in shape for shape in shapes),
        "half precision": bool(dtypes & {"float16", "bfloat16"}),
        "integers": any(dtype.startswith(("int", "uint")) for dtype in dtypes),
        "truth values": "bool" in dtypes,
        "complex": any(dtype.startswith("complex") for dtype in dtypes),
        "branch or loop": bool(_LOOPS & set(made.operators)),
        "quantised": any(_QUANTISED.search(operator) for operator in made.operators),
        "several operators": len(made.operators) > 1,
    }
    if isinstance(made.content, str) and made.graph is None:
        body = made.content.partition("def program")[0]
        found |= {name: found.get(name, False) or bool(words.search(body)) for name, words in _TEXT.items()}
    names = {name for name, has in found.items() if has}
    return tuple(sorted(names | (_of_graph(made.graph) if made.graph else set())))


def pairs_of(made: Blueprint) -> tuple[str, ...]:
    """Return pairs `A>B` in which operator B reads a result of operator A. Without a graph, each operator is assumed to
    read the one before it."""
    graph = made.graph
    if graph is None:
        names = [operator for operator, _ in made.coverage]
        found = {f"{one}>{other}" for one, other in itertools.pairwise(names)}
    else:
        makers = {number: node.op for node, span in zip(graph.nodes, graph.produced(), strict=True) for number in span}
        found = {f"{makers[number]}>{node.op}" for node in graph.nodes for number in node.inputs if number in makers}
    return tuple(sorted(found))


def depends_on_memory(graph: Graph) -> bool:
    """True if the results depend on the memory layout of the inputs, because the program writes into them."""
    if all(leaf.layout == "contiguous" for leaf in graph.leaves):
        return False
    return any(OPERATORS[node.op].inplace for node in graph.nodes)


def _of_graph(graph: Graph) -> set[str]:
    """Return the features of a graph: memory layouts, writes and transformations."""
    layouts = {leaf.layout.partition(":")[0] for leaf in graph.leaves if leaf.kind == "input"}
    makers = {number: node for node, span in zip(graph.nodes, graph.produced(), strict=True) for number in span}
    written = [node for node in graph.nodes if OPERATORS[node.op].inplace]
    views = {number: node.inputs[0] for number, node in makers.items() if OPERATORS[node.op].view}
    kept = set(graph.outputs)
    casts = {str(node.attributes.get("to")) for node in graph.nodes if node.op == "cast"}
    found = {
        "strided input": bool(layouts & {"transposed", "strided"}),
        "expanded input": bool(layouts & {"expanded", "overlapping"}),
        "inputs that share memory": "alias" in layouts,
        "write in place": bool(written),
        "write through a view": any(node.inputs[0] in views for node in written),
        "outputs that share memory": any(number in kept and base in kept for number, base in views.items()),
        "quantised": "int8" in casts and "round" in graph.operators,
        "gradient": graph.transform == GRADIENT,
        "branch or loop": graph.transform in LOOPS,
        "transformation": bool(graph.transform),
    }
    return {name for name, has in found.items() if has}
