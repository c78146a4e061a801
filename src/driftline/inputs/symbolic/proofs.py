"""Step 0: prove by intervals that a goal cannot be reached, assuming in turn each operand of a maximum to be the
greatest."""

from __future__ import annotations

from itertools import product

import numpy as np

from driftline.core.tensors import Array
from driftline.inputs.symbolic.formats import Format
from driftline.inputs.symbolic.goals import OVERFLOWING, UNDERFLOWING, GoalKind, Query, tolerated
from driftline.inputs.symbolic.graph import ExprNode
from driftline.inputs.symbolic.intervals import GreatestLeaf, Interval, Intervals, enclose, leaves_of

MOST_CASES = 128


def proves_impossible(query: Query) -> bool:
    """True if no input in the ranges can reach the goal."""
    low, high = query.bounds
    if not len(low):
        return False
    ends = query.numbers(low[None]), query.numbers(high[None])
    return not any(bool(possible(query, enclose(query.order, *ends, case)).any()) for case in cases_of(query))


def cases_of(query: Query) -> list[GreatestLeaf]:
    """Return all choices of the greatest operand for each maximum that is subtracted; one empty choice if there are too
    many."""
    inner = {arg for node in query.order if node.op == "max" for arg in node.args if arg.op == "max"}
    tops = [node for node in query.order if node.op == "max" and node not in inner]
    subtracted = {node.args[1] for node in query.order if node.op == "sub"}
    tops = [node for node in tops if node in subtracted]
    leaves = [leaves_of(node) for node in tops]
    if not tops or np.prod([len(one) for one in leaves], dtype=float) > MOST_CASES:
        return [{}]
    return [dict(zip(tops, choice, strict=True)) for choice in product(*leaves)]


def possible(query: Query, found: Intervals) -> Array:
    """Return, for each box, whether the intervals allow the goal."""
    kind = query.goal.kind
    answer: Array = np.zeros((1,), bool)
    if kind is GoalKind.NAN:
        for root in query.roots:
            answer = answer | found[root].nan
    elif kind is GoalKind.INF:
        for root in query.roots:
            answer = answer | _can_be_infinite(found[root])
    elif kind is GoalKind.OVERFLOW:
        for node in query.watched:
            if node.op in OVERFLOWING:
                answer = answer | _can_be_infinite(found[node])
    elif kind is GoalKind.UNDERFLOW:
        for node in query.watched:
            if node.op in UNDERFLOWING:
                answer = answer | _can_underflow(node, found)
    elif kind is GoalKind.ERROR:
        answer = np.ones((1,), bool)
    else:
        for root, other in zip(query.roots, query.others, strict=True):
            answer = answer | _can_differ(found[root], found[other], tolerated(query, root.format), root.format)
    return answer


def _can_be_infinite(one: Interval) -> Array:
    return np.isinf(one.low) | np.isinf(one.high)


def _can_underflow(node: ExprNode, found: Intervals) -> Array:
    limit, one = node.format.smallest_normal, found[node]
    room = (one.low < limit) & (one.high > -limit)
    if node.op in ("mul", "div", "fma", "cast"):
        for arg in node.args:
            part = found[arg]
            room = room & (np.maximum(np.abs(part.low), np.abs(part.high)) >= arg.format.smallest_normal)
    return room


def _can_differ(one: Interval, other: Interval, tolerance: float, form: Format) -> Array:
    a, b = (tuple(np.asarray(end, np.float64) for end in part[:2]) for part in (one, other))
    with np.errstate(all="ignore"):  # infinite ends count anyway
        most = np.maximum(a[1] - b[0], b[1] - a[0])
        size = np.maximum(_least_size(*a), _least_size(*b))
        far = most > tolerance * np.maximum(size, form.smallest_normal)
    return one.nan | other.nan | _can_be_infinite(one) | _can_be_infinite(other) | far


def _least_size(low: Array, high: Array) -> Array:
    return np.where((low <= 0) & (high >= 0), 0.0, np.minimum(np.abs(low), np.abs(high)))
