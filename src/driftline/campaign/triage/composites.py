"""Composite operators that fail because one of their parts does: ONNX's Gemm is a product and a sum.

A compiler multiplies with one kernel, whatever the operator is called, so the product of a failing Gemm is run alone on
the same operands. If the product fails too, and the Gemm's wrong result follows from it, the bug is named after the
product. If the Gemm is wrong in another way, it is a bug of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from driftline.campaign.triage.following import half_of_the_digits
from driftline.core.tensors import Array
from driftline.diagnose.reduce.graph import ProgramGraph, ProgramLeaf, ProgramNode
from driftline.diagnose.reduce.leaves import changed
from driftline.diagnose.reduce.values import Values

GEMM = "Gemm"


@dataclass(frozen=True)
class Product:
    """The product of a Gemm as its own program, and the factor and addend that the Gemm applies to it."""

    graph: ProgramGraph
    alpha: float
    added: Array | None

    def explains(self, product: Array, came: Array, right: Array) -> bool:
        """True if the Gemm's result `came` is wrong and follows from the result of the product alone. Each element is
        compared to half of its digits, since the numbers of one row may be millions and those of another small; smaller
        errors cannot be attributed."""
        with np.errstate(all="ignore"):
            product = self.alpha * product.astype(np.float64)
            added = np.zeros(()) if self.added is None else self.added
            composed = (product + added).astype(came.dtype)
            size = np.abs(product) + np.abs(added)
            allowed = np.where(np.isfinite(size), size * half_of_the_digits(came.dtype), 0.0)

            def same(other: Array) -> bool:
                mine, other = came.astype(np.float64), other.astype(np.float64)
                equal = (mine == other) | (np.isnan(mine) & np.isnan(other))
                return bool((equal | (np.abs(mine - other) <= allowed)).all())

            return came.shape == composed.shape and not same(right) and same(composed)


def has_product(coverage: Sequence[tuple[str, str]]) -> bool:
    """True if the program is a single Gemm, by its known operators."""
    return [operator for operator, _ in coverage] == [GEMM]


def product_in(graph: ProgramGraph, values: Values) -> Product | None:
    """Return the product of a program that is a single Gemm of floats, or None."""
    if [node.op for node in graph.nodes] != [GEMM] or len(graph.outputs) != 1:
        return None
    (gemm,) = graph.nodes
    left, right, *bias = (graph.leaf.get(number) for number in gemm.operands)
    if left is None or right is None or None in bias or left.number == right.number:
        return None

    def setting(name: str, usual: float) -> float:
        held = gemm.attributes.get(name)
        return usual if held is None else float(next(iter(held.values())))

    def turned(leaf: ProgramLeaf, name: str) -> ProgramLeaf:
        return changed(values, leaf, np.transpose) if setting(name, 0) else leaf

    operands = (turned(left, "transA"), turned(right, "transB"))
    node = ProgramNode("MatMul", tuple(leaf.number for leaf in operands), gemm.outputs)
    added = [setting("beta", 1.0) * values.load(leaf.data)[0].astype(np.float64) for leaf in bias if leaf]
    return Product(replace(graph, leaves=operands, nodes=(node,)), setting("alpha", 1.0), added[0] if added else None)
