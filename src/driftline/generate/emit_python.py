"""Code generation shared by torch, JAX and TensorFlow: Python text, with one statement for each node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from driftline.generate.graph import Graph, Leaf, TensorType, value_name
from driftline.generate.operator import Use, emit_text
from driftline.generate.table import OPERATORS

Example = Callable[[TensorType], str]


def statements(graph: Graph, language: str) -> list[str]:
    """Return the body of the function: an assignment for each node, and the return statement."""
    types = graph.types()
    lines = []
    for node, produced in zip(graph.nodes, graph.produced(), strict=True):
        form = OPERATORS[node.op].form(language)
        assert form, f"{node.op} has no form in {language}"
        names = [value_name(graph, number) for number in node.inputs]
        use = Use(names, [types[number] for number in node.inputs], node.outputs, node.attributes)
        left = ", ".join(value_name(graph, number) for number in produced)
        lines.append(f"{left} = {emit_text(form.emit, use)}")
    return [*lines, f"return {''.join(value_name(graph, number) + ', ' for number in graph.outputs)}".rstrip()]


def factory_file(
    graph: Graph,
    head: str,
    language: str,
    fixed: Callable[[Leaf], str],
    example: Example,
    around: Sequence[str] = (),
) -> str:
    """Return a file with a factory `program` that returns (callable, example inputs). `fixed` writes a parameter or
    constant, `example` an input. `around` is the body of the function if it wraps the graph's function, which it calls
    as `plain`."""
    types = graph.types()
    lines = [head, ""]
    lines += [
        f"{value_name(graph, number)} = {fixed(leaf)}"
        for number, leaf in enumerate(graph.leaves)
        if leaf.kind != "input"
    ]
    names = ", ".join(value_name(graph, number) for number in graph.inputs)
    bodies = (
        {"plain": statements(graph, language), "model": around} if around else {"model": statements(graph, language)}
    )
    for name, body in bodies.items():
        lines += ["", "", f"def {name}({names}):", *(f"    {line}" if line else "" for line in body)]
    made = [example(types[number]) for number in graph.inputs]
    lines += ["", "", "def program():", f"    return model, ({''.join(text + ', ' for text in made)})", ""]
    return "\n".join(lines)


def numbers_text(leaf: Leaf) -> str:
    """Return an expression for the numbers of a parameter or constant, which needs only numpy. See `leaf_numbers`."""
    shape = leaf.type.shape
    bound = leaf.values.partition(":")[2]
    draw = f"np.random.default_rng({leaf.seed})"
    if leaf.type.dtype == "bool":
        return f"{draw}.integers(0, 2, {shape})"
    if leaf.values.startswith("distinct:"):
        return (
            f"{draw}.permuted(np.resize(np.arange({bound}), {(*shape[:-1], int(bound))}), axis=-1)[..., :{shape[-1]}]"
        )
    if leaf.values.startswith("wrapped:"):
        return f"{draw}.integers(-{bound}, {bound}, {shape})"
    if bound:
        return f"{draw}.integers(0, {bound}, {shape})"
    if leaf.values in ("positive", "unit"):
        return f"{draw}.uniform(0.1, 1.0, {shape})"
    if not leaf.type.dtype.startswith(("float", "bfloat", "complex")):
        low = 1 if leaf.values == "nonzero" else 0 if leaf.type.dtype.startswith("u") else -5
        return f"{draw}.integers({low}, 6, {shape})"
    return f"np.asarray({draw}.standard_normal({shape}))"
