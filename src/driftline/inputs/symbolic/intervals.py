"""The interval pass: the values that each node can have while the variables lie in boxes.

Rounding to nearest is monotonic, so the ends of an interval, computed in the format itself, enclose all results of the
operation. Functions such as exp, which libraries compute only up to the last digit, get one ULP on either side, so that
a proof holds for all such libraries. Many boxes are evaluated at once.

`x - max(..., x, ...)` is at most zero; and where one operand of a maximum is assumed to be the greatest (a
`GreatestLeaf`), its difference from the maximum is zero. This proves a stable softmax stable, which plain intervals
cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from driftline.core.tensors import Array
from driftline.inputs.symbolic.formats import Format
from driftline.inputs.symbolic.graph import COMPARISONS, ExprNode
from driftline.inputs.symbolic.operators import FUNCTIONS, RANGES, RISING, STARTS, compute

INF = np.inf


class Interval(NamedTuple):
    """For a number: the ends of its range, and whether it can be NaN. For a truth value: whether it can be true (`low`)
    or false (`high`)."""

    low: Array
    high: Array
    nan: Array


Intervals = dict[ExprNode, Interval]
GreatestLeaf = Mapping[ExprNode, ExprNode]  # a maximum, and the leaf that is the greatest


def leaves_of(node: ExprNode) -> list[ExprNode]:
    """Return the operands of a tree of nested maxima (or minima), flattened."""
    stack, found = [node], []
    while stack:
        one = stack.pop()
        if one.op == node.op:
            stack.extend(reversed(one.args))
        else:
            found.append(one)
    return list(dict.fromkeys(found))


def enclose(
    order: Sequence[ExprNode], low: Mapping[str, Array], high: Mapping[str, Array], case: GreatestLeaf | None = None
) -> Intervals:
    """Return the intervals of all nodes for boxes of the variables. `case` assumes which operand of a maximum is
    greatest."""
    found: Intervals = {}
    no = np.zeros((1,), bool)
    with np.errstate(all="ignore"):
        for node in order:
            if node.op == "variable":
                found[node] = Interval(np.asarray(low[node.name]), np.asarray(high[node.name]), no)
            elif node.op == "constant":
                value = np.asarray([node.value], node.format.carrier)
                found[node] = Interval(value, value, np.isnan(value))
            else:
                found[node] = _interval(node, [found[arg] for arg in node.args])
                if case and node in case:
                    greatest = found[case[node]]
                    found[node] = Interval(np.maximum(found[node].low, greatest.low), greatest.high, found[node].nan)
                if node.op == "sub" and node.args[1].op == "max":
                    found[node] = _below_maximum(node, found, case)
    return found


def _below_maximum(node: ExprNode, found: Intervals, case: GreatestLeaf | None) -> Interval:
    left, right = node.args
    one = found[node]
    if case and case.get(right) is left:
        finite = np.isfinite(found[left].low) & np.isfinite(found[left].high)
        return Interval(np.where(finite, 0, one.low), np.where(finite, 0, one.high), one.nan)
    return Interval(one.low, np.minimum(one.high, 0), one.nan) if left in leaves_of(right) else one


def _interval(node: ExprNode, args: list[Interval]) -> Interval:
    if node.op in RULES:
        return RULES[node.op](node, args)
    if node.op in COMPARISONS:
        return _comparison(node, args)
    if node.op in RISING or node.op == "rsqrt":
        return _function(node, args[0])
    raise NotImplementedError(node.op)


def _hull(form: Format, corners: Sequence[Array], nan: Array) -> Interval:
    """Return the interval around the corners. A NaN corner comes from 0 * inf and the like and counts as zero."""
    clean = [np.where(np.isnan(corner), 0, corner) for corner in corners]
    return Interval(np.minimum.reduce(clean), np.maximum.reduce(clean), nan)


def _add(node: ExprNode, args: list[Interval]) -> Interval:
    a, b = args
    if node.op == "sub":
        if node.args[0] is node.args[1]:
            zero = np.zeros_like(a.low)
            return Interval(zero, zero, a.nan | np.isinf(a.low) | np.isinf(a.high))
        b = Interval(-b.high, -b.low, b.nan)
    opposite = ((a.high == INF) & (b.low == -INF)) | ((a.low == -INF) & (b.high == INF))
    low, high = node.format.round(a.low + b.low), node.format.round(a.high + b.high)
    low, high = np.where(np.isnan(low), -INF, low), np.where(np.isnan(high), INF, high)
    return Interval(low, high, a.nan | b.nan | opposite)


def _zero(a: Interval) -> Array:
    return (a.low <= 0) & (a.high >= 0)


def _infinite(a: Interval) -> Array:
    return np.isinf(a.low) | np.isinf(a.high)


def _mul(node: ExprNode, args: list[Interval]) -> Interval:
    a, b = args
    if node.args[0] is node.args[1]:
        ends = [node.format.round(a.low * a.low), node.format.round(a.high * a.high)]
        return Interval(np.where(_zero(a), 0, np.minimum(*ends)), np.maximum(*ends), a.nan)
    nan = a.nan | b.nan | (_zero(a) & _infinite(b)) | (_zero(b) & _infinite(a))
    return _hull(node.format, [node.format.round(x * y) for x in a[:2] for y in b[:2]], nan)


def _div(node: ExprNode, args: list[Interval]) -> Interval:
    a, b = args
    pole = _zero(b)
    nan = a.nan | b.nan | (_zero(a) & pole) | (_infinite(a) & _infinite(b))
    found = _hull(node.format, [node.format.round(x / y) for x in a[:2] for y in b[:2]], nan)
    return Interval(np.where(pole, -INF, found.low), np.where(pole, INF, found.high), nan)


def _fma(node: ExprNode, args: list[Interval]) -> Interval:
    """Return the interval of a * b + c, from the corners of the product and the ends of `c`, each with one rounding."""
    a, b, c = args
    same = node.args[0] is node.args[1]
    pairs = [(a.low, a.low), (a.high, a.high)] if same else [(x, y) for x in a[:2] for y in b[:2]]
    nan = a.nan | b.nan | c.nan | (_infinite(c) & (_infinite(a) | _infinite(b)))
    if not same:
        nan = nan | (_zero(a) & _infinite(b)) | (_zero(b) & _infinite(a))
    ends = []
    for added in c[:2]:
        corners = [compute("fma", node.format, [x, y, added]) for x, y in pairs]
        corners.append(np.where(_zero(a), added, corners[0]))  # a product of zero
        ends.append([np.where(np.isnan(corner), added, corner) for corner in corners])
    low, high = np.minimum.reduce(ends[0]), np.maximum.reduce(ends[1])
    return Interval(np.where(nan, -INF, low), np.where(nan, INF, high), nan)


def _sqrt(node: ExprNode, args: list[Interval]) -> Interval:
    (a,) = args
    low, high = (node.format.round(np.sqrt(np.maximum(end, 0))) for end in a[:2])
    return Interval(low, high, a.nan | (a.low < 0))


_EXACT_AT = {"log": 1.0, "log2": 1.0, "softplus": -INF, "sigmoid": -INF}  # others: zero


def _function(node: ExprNode, a: Interval) -> Interval:
    form, op = node.format, node.op
    start = STARTS.get(op, -INF)
    low, high = np.maximum(a.low, start), np.maximum(a.high, start)
    ends = [compute(op, form, [end]) for end in ((high, low) if op == "rsqrt" else (low, high))]
    ends = [np.where(np.isnan(end), 0, end) for end in ends]
    given = (high, low) if op == "rsqrt" else (low, high)
    least, most = RANGES.get(op, (-INF, INF))
    exact = _EXACT_AT.get(op, 0.0)
    below = np.where((given[0] == exact) | np.isinf(given[0]), ends[0], form.below(ends[0]))
    above = np.where((given[1] == exact) | np.isinf(given[1]), ends[1], form.above(ends[1]))
    nan = a.nan | (a.low < start)
    if op == "rsqrt":
        above = np.where(a.low <= 0, INF, above)
        return Interval(np.where(a.low <= 0, -INF, np.maximum(below, 0)), above, nan)  # of minus zero: -inf
    if op in ("log", "log2", "log1p"):
        below = np.where(a.low <= start, -INF, below)
    return Interval(np.clip(below, least, most), np.clip(above, least, most), nan)


def _circular(node: ExprNode, args: list[Interval]) -> Interval:
    """Return the interval of sine or cosine: from its ends if there is no extremum between them, else up to -1 or 1."""
    (a,) = args
    shift = 0.0 if node.op == "sin" else np.pi / 2
    low, high = np.asarray(a.low, np.float64) + shift, np.asarray(a.high, np.float64) + shift
    simple = (np.abs(low) < 1e5) & (np.abs(high) < 1e5)
    top = np.floor((high - np.pi / 2 + 1e-9) / (2 * np.pi)) >= np.ceil((low - np.pi / 2 - 1e-9) / (2 * np.pi))
    bottom = np.floor((high + np.pi / 2 + 1e-9) / (2 * np.pi)) >= np.ceil((low + np.pi / 2 - 1e-9) / (2 * np.pi))
    ends = [compute(node.op, node.format, [end]) for end in a[:2]]
    least = np.maximum(node.format.below(np.minimum(*ends)), -1)
    most = np.minimum(node.format.above(np.maximum(*ends)), 1)
    nan = a.nan | _infinite(a)
    return Interval(np.where(simple & ~bottom, least, -1.0), np.where(simple & ~top, most, 1.0), nan)


def _pow(node: ExprNode, args: list[Interval]) -> Interval:
    a, b = args
    corners = [compute("pow", node.format, [x, y]) for x in a[:2] for y in b[:2]]
    positive = a.low > 0
    found = _hull(node.format, corners, a.nan | b.nan)
    low, high = np.maximum(node.format.below(found.low), 0), node.format.above(found.high)
    low, high = np.where(positive, low, -INF), np.where(positive, high, INF)
    return Interval(low, high, found.nan | (a.low < 0))


def _where(node: ExprNode, args: list[Interval]) -> Interval:
    condition, a, b = args
    yes, no = condition.low, condition.high
    low = np.minimum(np.where(yes, a.low, INF), np.where(no, b.low, INF))
    high = np.maximum(np.where(yes, a.high, -INF), np.where(no, b.high, -INF))
    return Interval(low, high, (yes & a.nan) | (no & b.nan))


def _comparison(node: ExprNode, args: list[Interval]) -> Interval:
    a, b = args
    nan = a.nan | b.nan
    same = node.args[0] is node.args[1]
    less, more = (a.low < b.high) & (not same), (a.high > b.low) & (not same)
    equal = (a.low <= b.high) & (a.high >= b.low)
    can = {
        "lt": (less, more | equal | nan), "le": (less | equal, more | nan), "gt": (more, less | equal | nan),
        "ge": (more | equal, less | nan), "eq": (equal, less | more | nan), "ne": (less | more | nan, equal),
    }  # fmt: skip
    return Interval(*can[node.op], nan)


def _abs(node: ExprNode, args: list[Interval]) -> Interval:
    (a,) = args
    ends = np.abs(a.low), np.abs(a.high)
    return Interval(np.where(_zero(a), 0, np.minimum(*ends)), np.maximum(*ends), a.nan)


def _ends(node: ExprNode, args: list[Interval]) -> Interval:
    """Return the interval of an operation that is monotonic in each operand and is exact or rounded once."""
    nan = args[0].nan
    for one in args[1:]:
        nan = nan | one.nan
    low = compute(node.op, node.format, [one.low for one in args])
    return Interval(low, compute(node.op, node.format, [one.high for one in args]), nan)


RULES: dict[str, Callable[[ExprNode, list[Interval]], Interval]] = {
    "add": _add, "sub": _add, "mul": _mul, "div": _div, "fma": _fma, "sqrt": _sqrt, "sin": _circular, "cos": _circular,
    "pow": _pow, "where": _where, "abs": _abs, "min": _ends, "max": _ends, "floor": _ends, "ceil": _ends,
    "round": _ends, "cast": _ends,
    "neg": lambda node, args: Interval(-args[0].high, -args[0].low, args[0].nan),
    "and": lambda node, args: Interval(args[0].low & args[1].low, args[0].high | args[1].high, args[0].nan),
    "or": lambda node, args: Interval(args[0].low | args[1].low, args[0].high & args[1].high, args[0].nan),
    "not": lambda node, args: Interval(args[0].high, args[0].low, args[0].nan),
}  # fmt: skip
assert set(FUNCTIONS) <= {*RULES, *RISING, "rsqrt"}
