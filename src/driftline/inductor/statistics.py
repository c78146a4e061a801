"""Computes statistics of a graph: operators, dtypes, and estimates of arithmetic and memory.

Estimates, by shapes alone. FLOPs count a multiplication and an addition as two, as the papers do; an operator that is
no contraction counts one for each element that it makes, and moving data counts nothing. Memory is a walk over the
graph: a value lives from where it is made to where it is last read, and a view of a value keeps that value alive.
Values whose size is not known before the program runs are counted apart, never guessed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from driftline.inductor.graph_text import PrintedGraph, PrintedNode

_VIEWS = (
    "permute", "view", "reshape", "transpose", "t", "expand", "slice", "select", "squeeze", "unsqueeze", "alias",
    "detach", "split", "getitem", "as_strided", "unbind", "diagonal", "split_with_sizes", "_unsafe_view",
)  # fmt: skip
_PRODUCTS = ("mm", "bmm", "matmul", "@", "linear", "_linear_pointwise")
_MOVES = (
    *_VIEWS, "clone", "cat", "copy", "copy_", "full", "empty", "input", "attribute", "index", "embedding", "gather",
    "constant_pad_nd", "where", "iota", "arange", "_to_copy", "convert_element_type", "scalar_tensor",
)  # fmt: skip


@dataclass(frozen=True)
class GraphStatistics:
    """The statistics of one graph."""

    nodes: int
    inputs: int
    outputs: int
    operators: dict[str, int]  # most frequent first
    dtypes: dict[str, int]  # of the values made, inputs included
    flops: int
    input_bytes: int
    peak_bytes: int  # values alive at once, the inputs included
    unknown_sizes: int  # values whose size is open, which no estimate includes

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(graph: PrintedGraph) -> GraphStatistics:
    """Count the operators and dtypes of a graph, and estimate its arithmetic and memory."""
    every = (*graph.inputs, *graph.nodes)
    tensors = [node for node in every if node.shape is not None]
    by_name = {node.name: node for node in every}
    return GraphStatistics(
        nodes=len(graph.nodes),
        inputs=len(graph.inputs),
        outputs=len(graph.outputs),
        operators=dict(Counter(node.op for node in graph.nodes).most_common()),
        dtypes=dict(Counter(node.dtype for node in tensors).most_common()),
        flops=sum(flops(node, by_name) for node in graph.nodes),
        input_bytes=sum(node.nbytes or 0 for node in graph.inputs),
        peak_bytes=_peak(graph, by_name),
        unknown_sizes=sum(node.nbytes is None for node in tensors),
    )


def short_op(op: str) -> str:
    """Return the short name of an operator: `add` for `aten.add.Tensor` and `torch.add`."""
    parts = [part for part in op.split(".") if part]
    if len(parts) > 2 and parts[0] in ("aten", "prims", "inductor", "mkldnn", "mkl", "quantized"):
        return parts[1]
    return parts[-1] if parts else op


def flops(node: PrintedNode, by_name: dict[str, PrintedNode]) -> int:
    """Estimate the floating-point operations of one node."""
    made = node.elements
    if made is None:
        return 0
    name = short_op(node.op)
    shapes = [_sizes(by_name[arg]) for arg in node.args if arg in by_name]
    known = [shape for shape in shapes if shape is not None]
    contraction = _contraction_flops(name, made, known)
    if contraction is not None:
        return contraction
    if name in _MOVES:
        return 0
    return max([made, *(math.prod(shape) for shape in known)]) if _reduces(name) else made


def _contraction_flops(name: str, made: int, shapes: Sequence[tuple[int, ...]]) -> int | None:
    """Estimate the operations of a product, convolution or attention; None for other operators.

    `made`: the number of elements of the result. `shapes`: those of the inputs, as far as they are known.
    """
    if name in _PRODUCTS and shapes and shapes[0]:
        return 2 * made * shapes[0][-1]
    if name in ("addmm", "baddbmm") and len(shapes) > 1 and shapes[-1]:
        return 2 * made * shapes[-1][-2] + made
    if name.startswith(("conv", "_convolution")) and len(shapes) > 1:
        return 2 * made * math.prod(shapes[1][1:])
    if "attention" in name and len(shapes) > 2 and len(shapes[0]) > 1:
        queries = math.prod(shapes[0][:-1])
        return 2 * queries * shapes[1][-2] * (shapes[0][-1] + shapes[2][-1])
    return None


def _reduces(name: str) -> bool:
    return name.startswith(("sum", "mean", "amax", "amin", "max", "min", "var", "prod", "any", "all", "norm"))


def _sizes(node: PrintedNode) -> tuple[int, ...] | None:
    if node.shape is None or not all(size.isdigit() for size in node.shape):
        return None
    return tuple(int(size) for size in node.shape)


def _peak(graph: PrintedGraph, by_name: dict[str, PrintedNode]) -> int:
    """Estimate the most bytes that are alive at once."""
    owner = _owners(graph)
    last: dict[str, int] = {}
    for at, node in enumerate(graph.nodes):
        for arg in (*node.args, node.name):
            last[owner.get(arg, arg)] = at
    kept = {owner.get(name, name) for name in graph.outputs} | {node.name for node in graph.inputs}
    alive = peak = sum(node.nbytes or 0 for node in graph.inputs)
    for at, node in enumerate(graph.nodes):
        if owner[node.name] == node.name:
            alive += node.nbytes or 0
        peak = max(peak, alive)
        for name in {owner.get(arg, arg) for arg in (*node.args, node.name)} - kept:
            if last[name] == at:
                alive -= by_name[name].nbytes or 0
    return peak


def _owners(graph: PrintedGraph) -> dict[str, str]:
    """Return, for each value, the value whose memory holds it: for a view, the owner of the first value it reads."""
    owner: dict[str, str] = {}
    for node in (*graph.inputs, *graph.nodes):
        reads = [arg for arg in node.args if arg in owner]
        owner[node.name] = owner[reads[0]] if short_op(node.op) in _VIEWS and reads else node.name
    return owner
