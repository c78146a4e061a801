"""Evaluate a graph on numbers: bit for bit in its own formats, or in float64 throughout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from driftline.core.tensors import Array
from driftline.inputs.symbolic.formats import FLOAT64
from driftline.inputs.symbolic.graph import ExprNode, in_order
from driftline.inputs.symbolic.operators import compute

NodeValues = dict[ExprNode, Array]


def evaluate(roots: Sequence[ExprNode], given: Mapping[str, Array], *, exact: bool = False) -> NodeValues:
    """Return the value of every node below the roots. `given` has for each variable one number for each run.

    With `exact`, all formats are float64 and casts do nothing; constants keep the values they have in the program.
    """
    return evaluate_order(in_order(roots), given, exact=exact)


def evaluate_order(order: Sequence[ExprNode], given: Mapping[str, Array], *, exact: bool = False) -> NodeValues:
    """Like `evaluate`, for nodes that are already sorted."""
    values: NodeValues = {}
    with np.errstate(all="ignore"):
        for node in order:
            form = FLOAT64 if exact and node.form is not None else node.form
            if node.op == "variable":
                values[node] = np.asarray(given[node.name], form.carrier if form else bool)
            elif node.op == "constant":
                values[node] = np.asarray(node.value, node.format.carrier if not exact else np.float64)
            elif exact and node.op == "cast":
                values[node] = values[node.args[0]]
            else:
                values[node] = compute(node.op, form, [values[arg] for arg in node.args])
    return values
