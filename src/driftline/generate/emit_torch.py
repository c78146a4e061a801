"""Write a graph as a torch program: readable Python text."""

from __future__ import annotations

from driftline.generate.emit_python import numbers_text, statements
from driftline.generate.graph import Graph, value_name
from driftline.generate.table import OPERATORS

_HEAD = """\
import numpy as np
import torch
import torch.nn.functional as F
"""


def emit_torch(graph: Graph) -> str:
    """Return a file with a factory `program` that returns (callable, example inputs)."""
    inputs = [value_name(graph, number) for number in graph.inputs]
    owned = [number for number, leaf in enumerate(graph.leaves) if leaf.kind != "input"]
    lines = [_HEAD, ""]
    body = statements(graph, "torch")
    if owned:
        lines += ["class Model(torch.nn.Module):", "    def __init__(self):", "        super().__init__()"]
        lines += [f"        {_owned(graph, number)}" for number in owned]
        lines += ["", f"    def forward({', '.join(['self', *inputs])}):"]
        lines += [f"        {name} = self.{name}" for name in (value_name(graph, number) for number in owned)]
        lines += [f"        {line}" for line in body]
        made = "Model().eval()"
    else:
        lines += [f"def model({', '.join(inputs)}):", *(f"    {line}" for line in body)]
        made = "model"
    lines += ["", "", "def program():"]
    lines += [f"    {value_name(graph, number)} = {_example(graph, number)}" for number in graph.inputs]
    lines += [f"    return {made}, ({''.join(name + ', ' for name in inputs)})", ""]
    return "\n".join(lines)


def _owned(graph: Graph, number: int) -> str:
    leaf, name = graph.leaves[number], value_name(graph, number)
    made = f"torch.from_numpy({numbers_text(leaf)}).to({torch_dtype(leaf.type.dtype)})"
    if leaf.kind == "parameter":
        return f"self.{name} = torch.nn.Parameter({made}{', requires_grad=False' if _frozen(graph) else ''})"
    return f'self.register_buffer("{name}", {made})'


def _frozen(graph: Graph) -> bool:
    """True if parameters need `requires_grad=False`, because one may be a running mean or variance."""
    return not graph.grad and any(OPERATORS[node.op].statistics for node in graph.nodes)


def torch_dtype(dtype: str) -> str:
    return f"torch.{dtype}"


def _example(graph: Graph, number: int) -> str:
    """Return an expression for an example input. The case replaces its numbers, but its memory layout is kept."""
    leaf = graph.leaves[number]
    shape, dtype = leaf.type.shape, torch_dtype(leaf.type.dtype)
    if leaf.layout.startswith("alias:"):
        other = int(leaf.layout[6:])
        if graph.leaves[other].type == leaf.type:
            return value_name(graph, other)
        return f"{value_name(graph, other)}.reshape(-1)[-{leaf.type.size}:].view({shape})"
    if leaf.layout == "transposed":
        return f"torch.zeros({shape[::-1]}, dtype={dtype}).permute({tuple(reversed(range(len(shape))))})"
    if leaf.layout == "strided":
        return f"torch.zeros({(*shape[:-1], shape[-1] * 2)}, dtype={dtype})[..., ::2]"
    if leaf.layout == "expanded":
        return f"torch.zeros({(1, *shape[1:])}, dtype={dtype}).expand({shape})"
    if leaf.layout == "overlapping":
        return f"torch.zeros({(shape[0] + shape[1] - 1,)}, dtype={dtype}).unfold(0, {shape[1]}, 1)"
    return f"torch.zeros({shape}, dtype={dtype})"
