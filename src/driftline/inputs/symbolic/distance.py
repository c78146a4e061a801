"""How far each run is from the goal, for searches that minimise the distance. Negative where the goal is reached.

Distances are measured in ordinals, as a share of all floats, so that 1e-30 and 1e-3 are both far from zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from driftline.core.tensors import Array
from driftline.inputs.symbolic.evaluate import NodeValues
from driftline.inputs.symbolic.goals import (
    OVERFLOWING,
    UNDERFLOWING,
    GoalKind,
    Query,
    reached,
    relative_error,
    tolerated,
)
from driftline.inputs.symbolic.graph import ExprNode

FAR = 10.0
REACHED = -1.0
Place = Callable[[ExprNode], Array]


def distances(query: Query, ordinals: Array) -> Array:
    """Return the distance to the goal for each row of ordinals."""
    values, exact = query.run(query.numbers(ordinals))
    rows = len(ordinals)
    with np.errstate(all="ignore"):
        hit = np.broadcast_to(reached(query, values, exact), (rows,))
        far = np.broadcast_to(_BY_KIND[query.goal.kind](query, values, exact), (rows,))
        return np.where(hit, REACHED, np.where(np.isnan(far), FAR, np.maximum(far, 0)))


def _place(values: NodeValues) -> Place:
    """Return a function that maps a node to its values as ordinals, scaled to the range from -1 to 1."""

    def place(node: ExprNode) -> Array:
        value = np.nan_to_num(np.asarray(values[node], np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        form = node.format
        clipped = np.clip(value, -form.largest, form.largest)
        return form.ordinal_of(clipped) / form.largest_ordinal

    return place


def _to_nan(query: Query, values: NodeValues, exact: NodeValues) -> Array:
    """Return the distance to the nearest operation that gives NaN: inf - inf, 0 * inf, 0 / 0, inf / inf, or the log or
    sqrt of a negative number."""
    place = _place(values)
    best: Array = np.full((1,), FAR)
    for node in query.order:
        if node.form is None or not node.args or node.args[0].form is None:
            continue
        a = place(node.args[0])
        if node.op in ("sqrt", "rsqrt", "log", "log2"):
            best = np.minimum(best, np.maximum(a, 0) + 1e-9)
        elif node.op == "log1p":
            best = np.minimum(best, np.abs(a + 0.5) + 1e-9)
        elif node.op in ("sin", "cos"):
            best = np.minimum(best, 1 - np.abs(a))
        elif node.op in ("add", "sub", "mul", "div"):
            a, b = np.abs(a), np.abs(place(node.args[1]))
            ends = (1 - a) + (1 - b)
            if node.op == "mul":
                ends = np.minimum(a + (1 - b), (1 - a) + b)
            elif node.op == "div":
                ends = np.minimum(ends, a + b)
            best = np.minimum(best, ends)
    return best


def _to_infinity(query: Query, values: NodeValues, exact: NodeValues) -> Array:
    place = _place(values)
    best: Array = np.full((1,), FAR)
    for root in query.roots:
        best = np.minimum(best, 1 - np.abs(place(root)))
    for node in query.order:
        if node.op == "div":
            best = np.minimum(best, np.abs(place(node.args[1])) + 1e-9)
        elif node.op in ("log", "log2", "rsqrt"):
            best = np.minimum(best, np.abs(place(node.args[0])) + 1e-9)
        elif node.op in OVERFLOWING:
            best = np.minimum(best, 1 - np.abs(place(node)) + 0.05)
    return best


def _to_overflow(query: Query, values: NodeValues, exact: NodeValues) -> Array:
    place = _place(values)
    best: Array = np.full((1,), FAR)
    for node in query.watched:
        if node.op in OVERFLOWING:
            best = np.minimum(best, 1 - np.abs(place(node)) + 1e-9)
    return best


def _to_underflow(query: Query, values: NodeValues, exact: NodeValues) -> Array:
    place = _place(values)
    best: Array = np.full((1,), FAR)
    for node in query.watched:
        if node.op in UNDERFLOWING:
            lost = sum((np.abs(values[arg]) < arg.format.smallest_normal) * 0.5 for arg in node.args if arg.form)
            best = np.minimum(best, np.abs(place(node)) + lost + 1e-9)
    return best


def _to_error(query: Query, values: NodeValues, exact: NodeValues) -> Array:
    """Return the decimal digits of relative error still missing, plus a term that rewards cancellation so that the
    search always has a direction."""
    best: Array = np.full((1,), 40.0)
    for root in query.roots:
        error = relative_error(root, values, exact)
        missing = np.log10(query.goal.threshold) - np.log10(np.maximum(error, 1e-30))
        sizes = [np.abs(np.asarray(values[n], np.float64)) for n in query.order if n.form is not None and n.args]
        biggest = np.maximum.reduce([np.broadcast_to(size, np.shape(error)) for size in sizes]) if sizes else 1.0
        left = np.log10(np.abs(np.asarray(exact[root])) / biggest + 1e-30)
        best = np.minimum(best, np.minimum(missing, 30) + np.maximum(left + 12, 0) * 0.5 + 1e-3)
    return best


def _to_difference(query: Query, values: NodeValues, exact: NodeValues) -> Array:
    place = _place(values)
    best: Array = np.full((1,), 40.0)
    for root, other in zip(query.roots, query.others, strict=True):
        a, b = np.asarray(values[root], np.float64), np.asarray(values[other], np.float64)
        apart = np.abs(a - b) / np.maximum(np.abs(a), np.abs(b))
        apart = np.where(np.isfinite(apart) & (apart > 0), apart, 1e-30)
        missing = np.log10(tolerated(query, root.format)) - np.log10(apart)
        edge = np.minimum(1 - np.abs(place(root)), 1 - np.abs(place(other)))
        best = np.minimum(best, np.minimum(missing, 30) * (0.2 + np.maximum(edge, 0)) + 1e-3)
    return best


_BY_KIND: dict[GoalKind, Callable[[Query, NodeValues, NodeValues], Array]] = {
    GoalKind.NAN: _to_nan,
    GoalKind.INF: _to_infinity,
    GoalKind.OVERFLOW: _to_overflow,
    GoalKind.UNDERFLOW: _to_underflow,
    GoalKind.ERROR: _to_error,
    GoalKind.DIVERGE: _to_difference,
}
