"""Encode a query as SMT-LIB text (QF_BVFP), for exact solvers.

Functions such as exp become new constants with known properties: they are monotonic and have known values at some
points. More points are added where a model of the solver is wrong about them (`exact.py`).

The solver has no bfloat16: it is computed in float32 and rounded by its bits, which is the same for everything but fma.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from driftline.inputs.symbolic.formats import FLOAT32, FLOAT64, Format
from driftline.inputs.symbolic.goals import OVERFLOWING, UNDERFLOWING, GoalKind, Query, tolerated
from driftline.inputs.symbolic.graph import COMPARISONS, ExprNode
from driftline.inputs.symbolic.operators import FUNCTIONS, RANGES, RISING, STARTS, compute

_DIRECT = {"add": "fp.add RNE", "sub": "fp.sub RNE", "mul": "fp.mul RNE", "div": "fp.div RNE", "fma": "fp.fma RNE",
           "sqrt": "fp.sqrt RNE", "neg": "fp.neg", "abs": "fp.abs", "floor": "fp.roundToIntegral RTN",
           "ceil": "fp.roundToIntegral RTP", "round": "fp.roundToIntegral RNE"}  # fmt: skip
_COMPARED = {"lt": "fp.lt", "le": "fp.leq", "gt": "fp.gt", "ge": "fp.geq", "eq": "fp.eq"}
_POINTS = [-1e4, -745, -110, -104, -95, -88, -60, -40, -20, -17, -10, -5, -2, -1, -0.5, -0.1, -1e-3, 0.0, 1e-40, 1e-30,
           1e-10, 1e-5, 0.1, 0.5, 0.9, 1.0, 1.1, 2.0, 5.0, 10.0, 11.0, 11.125, 16.0, 20.0, 40.0, 60.0, 80.0, 88.5,
           88.75, 95.0, 128.0, 710.0, 1e3, 6e4, 1e10, 1e30]  # fmt: skip


class UnsupportedQuery(Exception):
    """The query has an operation that cannot be encoded for the solver."""


class Encoding:
    """Builds the SMT-LIB text of a query, and holds the names of its nodes in the text."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.lines: list[str] = []
        self.names: dict[ExprNode, str] = {}
        self.functions: list[ExprNode] = []
        self.proves = True  # a refutation of the text is one of the query
        for node in query.order:
            self.names[node] = self._node(node, f"n{len(self.names)}")
        self._bounds()
        self.lines.append(f"(assert {self._goal()})")

    def text(self) -> str:
        return "(set-logic QF_BVFP)\n" + "\n".join(self.lines) + "\n"

    def bits(self, node: ExprNode) -> str:
        """Return the name of a variable's bit pattern."""
        return f"{self.names[node]}b"

    def add_point(self, node: ExprNode, at: float) -> None:
        """Assert the true value of a function at one point; for monotonic functions also the bound on either side."""
        form, x, y = _inside(node.format), self.names[node.args[0]], self.names[node]
        value = float(compute(node.op, node.format, [np.asarray(at, node.format.carrier)]))
        here = _literal(at, form)
        if math.isnan(value):
            self.lines.append(f"(assert (=> (fp.eq {x} {here}) (fp.isNaN {y})))")
            return
        known = _literal(value, form)
        if node.op in RISING:
            self.lines.append(f"(assert (=> (fp.geq {x} {here}) (fp.geq {y} {known})))")
            lowest = STARTS.get(node.op, -math.inf)
            guard = f"(and (fp.leq {x} {here}) (fp.geq {x} {_literal(lowest, form)}))"
            self.lines.append(f"(assert (=> {guard} (fp.leq {y} {known})))")
        else:
            self.lines.append(f"(assert (=> (fp.eq {x} {here}) (fp.eq {y} {known})))")

    def _node(self, node: ExprNode, name: str) -> str:
        args = [self.names[arg] for arg in node.args]
        if node.form is None:
            self._define(name, "Bool", self._truth(node, args))
            return name
        form = _inside(node.format)
        if node.op == "variable":
            self._variable(node, name)
        elif node.op == "constant":
            self._define(name, _sort(form), _literal(node.value, form))
        elif node.op == "cast":
            source = _inside(node.args[0].format)
            exact = args[0] if source is form else f"({_to(form)} RNE {args[0]})"
            self._rounded(node, name, exact)
        elif node.op in _DIRECT:
            if node.op == "fma" and node.format.name == "bfloat16":
                self.proves = False
            self._rounded(node, name, f"({_DIRECT[node.op]} {' '.join(args)})")
        elif node.op in ("max", "min"):
            picked = f"(ite (fp.{'geq' if node.op == 'max' else 'leq'} {args[0]} {args[1]}) {args[0]} {args[1]})"
            nan = f"(or (fp.isNaN {args[0]}) (fp.isNaN {args[1]}))"
            self._define(name, _sort(form), f"(ite {nan} {_literal(math.nan, form)} {picked})")
        elif node.op == "where":
            self._define(name, _sort(form), f"(ite {args[0]} {args[1]} {args[2]})")
        elif node.op in FUNCTIONS and len(args) == 1:
            self._function(node, name, args[0], form)
        else:
            raise UnsupportedQuery(node.op)
        return name

    def _define(self, name: str, sort: str, term: str) -> None:
        self.lines.append(f"(define-fun {name} () {sort} {term})")

    def _variable(self, node: ExprNode, name: str) -> None:
        form, own = _inside(node.format), node.format
        self.lines.append(f"(declare-const {name}b (_ BitVec {own.bits}))")
        pattern = f"{name}b" if form is own else f"(concat {name}b #x0000)"
        self._define(name, _sort(form), f"({_to(form)} {pattern})")
        self.lines.append(f"(assert (not (or (fp.isNaN {name}) (fp.isInfinite {name}))))")

    def _rounded(self, node: ExprNode, name: str, exact: str) -> None:
        """Define a result rounded to its format. bfloat16 is rounded to nearest, ties to even, by adding to the bits
        below the cut."""
        form = _inside(node.format)
        if form is node.format:
            self._define(name, _sort(form), exact)
            return
        self._define(f"{name}e", _sort(form), exact)
        self.lines.append(f"(declare-const {name}t (_ BitVec 32))")
        self.lines.append(f"(assert (= ({_to(form)} {name}t) {name}e))")
        tie = f"((_ zero_extend 31) ((_ extract 16 16) {name}t))"
        rounded = f"(bvand (bvadd (bvadd {name}t #x00007fff) {tie}) #xffff0000)"
        self._define(name, _sort(form), f"(ite (fp.isNaN {name}e) {name}e ({_to(form)} {rounded}))")

    def _function(self, node: ExprNode, name: str, x: str, form: Format) -> None:
        self.lines.append(f"(declare-const {name} {_sort(form)})")
        self.lines.append(f"(assert (=> (fp.isNaN {x}) (fp.isNaN {name})))")
        start = STARTS.get(node.op, -math.inf)
        lowest = _literal(start, form)
        if node.op in ("sin", "cos"):
            self.lines.append(f"(assert (= (fp.isNaN {name}) (or (fp.isNaN {x}) (fp.isInfinite {x}))))")
        else:
            self.lines.append(f"(assert (=> (fp.lt {x} {lowest}) (fp.isNaN {name})))")
            self.lines.append(f"(assert (=> (fp.geq {x} {lowest}) (not (fp.isNaN {name}))))")
        if node.op in RANGES:
            least, most = (_literal(end, form) for end in RANGES[node.op])
            if node.op != "rsqrt":
                both = f"(and (fp.geq {name} {least}) (fp.leq {name} {most}))"
                self.lines.append(f"(assert (or (fp.isNaN {name}) {both}))")
        if node.format is not form:  # a bfloat16 has no bits below
            self.lines.append(f"(declare-const {name}t (_ BitVec 16))")
            self.lines.append(f"(assert (=> (not (fp.isNaN {name})) (= {name} ({_to(form)} (concat {name}t #x0000)))))")
        self.names[node] = name
        if node.op in RISING:
            points = node.format.round(np.array([p for p in _POINTS if p >= start], np.float64))
            for point in np.unique(np.concatenate([points[np.isfinite(points)], [-np.inf, np.inf]])):
                if point >= start:
                    self.add_point(node, float(point))
            if math.isfinite(start):
                self.add_point(node, start)
            for other in self.functions:
                if other.op == node.op and other.form is node.form:
                    self._in_order(node, other)
        self.functions.append(node)

    def _in_order(self, one: ExprNode, other: ExprNode) -> None:
        x, y, u, v = (self.names[n] for n in (one.args[0], one, other.args[0], other))
        for a, b, c, d in ((x, u, y, v), (u, x, v, y)):
            self.lines.append(f"(assert (=> (fp.leq {a} {b}) (or (fp.isNaN {c}) (fp.isNaN {d}) (fp.leq {c} {d}))))")

    def _truth(self, node: ExprNode, args: Sequence[str]) -> str:
        if node.op == "ne":
            return f"(not (fp.eq {args[0]} {args[1]}))"
        if node.op in COMPARISONS:
            return f"({_COMPARED[node.op]} {args[0]} {args[1]})"
        return f"({node.op} {' '.join(args)})"

    def _bounds(self) -> None:
        for node in self.query.variables:
            if node.name in self.query.ranges:
                form, name = _inside(node.format), self.names[node]
                low, high = (float(end) for end in node.format.round(np.array(self.query.ranges[node.name], float)))
                low, high = max(low, -node.format.largest), min(high, node.format.largest)
                self.lines.append(
                    f"(assert (and (fp.geq {name} {_literal(low, form)}) (fp.leq {name} {_literal(high, form)})))"
                )

    def _goal(self) -> str:
        query, kind = self.query, self.query.goal.kind
        if kind is GoalKind.NAN:
            return _either(f"(fp.isNaN {self.names[root]})" for root in query.roots)
        if kind is GoalKind.INF:
            return _either(f"(fp.isInfinite {self.names[root]})" for root in query.roots)
        if kind is GoalKind.OVERFLOW:
            return _either(self._overflow(node) for node in query.watched if node.op in OVERFLOWING)
        if kind is GoalKind.UNDERFLOW:
            return _either(self._underflow(node) for node in query.watched if node.op in UNDERFLOWING)
        if kind is GoalKind.DIVERGE:
            return _either(self._apart(a, b) for a, b in zip(query.roots, query.others, strict=True))
        raise UnsupportedQuery(str(kind))

    def _overflow(self, node: ExprNode) -> str:
        parts = [f"(fp.isInfinite {self.names[node]})", *(self._finite(arg) for arg in node.args)]
        if node.op == "div":
            parts.append(f"(not (fp.isZero {self.names[node.args[1]]}))")
        return f"(and {' '.join(parts)})"

    def _underflow(self, node: ExprNode) -> str:
        parts = [f"(fp.lt (fp.abs {self.names[node]}) {_literal(node.format.smallest_normal, _inside(node.format))})"]
        for arg in node.args:
            parts.append(self._finite(arg))
            if node.op in ("mul", "div", "fma", "cast"):
                limit = _literal(arg.format.smallest_normal, _inside(arg.format))
                parts.append(f"(fp.geq (fp.abs {self.names[arg]}) {limit})")
        return f"(and {' '.join(parts)})"

    def _finite(self, node: ExprNode) -> str:
        name = self.names[node]
        return f"(not (or (fp.isNaN {name}) (fp.isInfinite {name})))"

    def _apart(self, one: ExprNode, other: ExprNode) -> str:
        """Return the term that two results differ beyond the tolerance, compared in float64."""
        a, b = self.names[one], self.names[other]
        wide = [name if one.format is FLOAT64 else f"({_to(FLOAT64)} RNE {name})" for name in (a, b)]
        size = f"(ite (fp.geq (fp.abs {wide[0]}) (fp.abs {wide[1]})) (fp.abs {wide[0]}) (fp.abs {wide[1]}))"
        limit = f"(fp.mul RNE {_literal(tolerated(self.query, one.format), FLOAT64)} {size})"
        far = f"(fp.gt (fp.abs (fp.sub RNE {wide[0]} {wide[1]})) {limit})"
        enough = f"(fp.geq {size} {_literal(one.format.smallest_normal, FLOAT64)})"
        both = f"(and {self._finite(one)} {self._finite(other)} {far} {enough})"
        nan, infinite = (f"(xor ({test} {a}) ({test} {b}))" for test in ("fp.isNaN", "fp.isInfinite"))
        return f"(or {nan} {infinite} {both})"


def _inside(form: Format) -> Format:
    """Return the format that the solver computes in."""
    return FLOAT32 if form.name == "bfloat16" else form


def _sort(form: Format) -> str:
    return f"(_ FloatingPoint {form.exponent} {form.significand})"


def _to(form: Format) -> str:
    return f"(_ to_fp {form.exponent} {form.significand})"


def _literal(value: float, form: Format) -> str:
    if math.isnan(value):
        return f"(_ NaN {form.exponent} {form.significand})"
    return f"({_to(form)} #b{form.bits_of(value):0{form.bits}b})"


def _either(parts: Iterable[str]) -> str:
    return f"(or false {' '.join(found)})" if (found := list(parts)) else "false"
