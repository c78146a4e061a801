"""The queries of benchmarks/inputs.py.

Base kinds are those that special numbers or chance can reach, and some that nothing can; hard ones are needles, narrow
ranges, large rounding errors, and lowerings that differ in few places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from driftline.inputs.symbolic import functions as f
from driftline.inputs.symbolic.formats import Format
from driftline.inputs.symbolic.functions import variables
from driftline.inputs.symbolic.goals import PLAIN, Goal, GoalKind, Query
from driftline.inputs.symbolic.graph import ExprNode, apply, where
from driftline.inputs.symbolic.rewrites import rewritten

Roots = Callable[[list[ExprNode]], list[ExprNode]]
Limits = tuple[float, float] | None


@dataclass(frozen=True)
class QueryKind:
    """A query for any format; `lowering` for goals of divergence."""

    name: str
    goal: GoalKind
    count: int
    roots: Roots
    limits: Limits = None
    hard: bool = False
    threshold: float = 0.0
    lowering: str = ""

    def query(self, form: Format) -> Query | None:
        """None where the format has no such lowering."""
        x = variables(self.count, form)
        roots = tuple(self.roots(x))
        ranges: Mapping[str, tuple[float, float]] = {n.name: self.limits for n in x} if self.limits else {}
        if self.goal is not GoalKind.DIVERGE:
            return Query(Goal(self.goal, self.threshold), roots, ranges=ranges)
        others = rewritten(self.lowering, roots)
        if others is None:
            return None
        return Query(Goal(self.goal, self.threshold, PLAIN, self.lowering), roots, others, ranges)


NAN, INF, OVER, UNDER, ERROR, DIVERGE = GoalKind


def _pole(x: list[ExprNode]) -> list[ExprNode]:
    return [x[0] / (f.exp(8.0 * (x[0] - 1.2345)) - x[1])]


def _one(build: Callable[[list[ExprNode]], ExprNode]) -> Roots:
    return lambda x: [build(x)]


def _guarded(x: list[ExprNode]) -> list[ExprNode]:
    positive = apply("gt", x[0], x[1])
    return [where(positive, apply("sqrt", x[0] - x[1]), x[0])]


def _root_of_two(x: list[ExprNode]) -> list[ExprNode]:
    rest = x[0] * x[0] - 2.0
    return [rest / rest]


def _naive_sigmoid(x: list[ExprNode]) -> list[ExprNode]:
    return [f.exp(x[0]) / (1.0 + f.exp(x[0]))]


def _naive_tanh(x: list[ExprNode]) -> list[ExprNode]:
    up, down = f.exp(x[0]), f.exp(-x[0])
    return [(up - down) / (up + down)]


def _entropy(x: list[ExprNode]) -> list[ExprNode]:
    return [-f.total([p * f.log(p) for p in x])]


def _divergence(x: list[ExprNode]) -> list[ExprNode]:
    return [x[0] * (f.log(x[0]) - f.log(x[1]))]


def _smaller_root(x: list[ExprNode]) -> list[ExprNode]:
    """Of a quadratic equation, by the formula of the schools, which cancels."""
    return [(f.sqrt(x[0] * x[0] - 4.0 * x[1]) - x[0]) / 2.0]


def _relative_difference(x: list[ExprNode]) -> list[ExprNode]:
    sizes = apply("max", apply("abs", x[0]), apply("abs", x[1]))
    return [apply("abs", x[0] - x[1]) / sizes]


def _two_needles(x: list[ExprNode]) -> list[ExprNode]:
    return [1.0 / (apply("abs", x[0] - 1.3125) + apply("abs", x[1] * x[1] - 1.265625))]


BASE = [
    QueryKind("softmax naive nan", NAN, 4, f.softmax_naive),
    QueryKind("softmax naive nan in [-200, 200]", NAN, 4, f.softmax_naive, (-200, 200)),
    QueryKind("softmax stable nan", NAN, 4, f.softmax),
    QueryKind("log-softmax naive inf", INF, 4, f.log_softmax_naive, (-1000, 1000)),
    QueryKind("log-softmax stable nan", NAN, 4, f.log_softmax, (-1000, 1000)),
    QueryKind("logsumexp naive inf", INF, 4, _one(f.logsumexp_naive)),
    QueryKind("logsumexp naive -inf below zero", INF, 4, _one(f.logsumexp_naive), (-1000, 0)),
    QueryKind("logsumexp stable inf", INF, 4, _one(f.logsumexp), (-1000, 1000)),
    QueryKind("cross entropy naive inf", INF, 4, _one(f.cross_entropy_naive), (-1000, 1000)),
    QueryKind("cross entropy stable nan", NAN, 4, _one(f.cross_entropy), (-1000, 1000)),
    QueryKind("one-pass deviation nan", NAN, 4, _one(lambda x: f.sqrt(f.variance_one_pass(x))), (1, 100)),
    QueryKind("two-pass deviation nan", NAN, 4, _one(lambda x: f.sqrt(f.variance(x)))),
    QueryKind("layer norm one-pass nan", NAN, 4, lambda x: f.layer_norm(x, 1e-12, one_pass=True), (-200, 200)),
    QueryKind("layer norm nan in [-50, 50]", NAN, 4, f.layer_norm, (-50, 50)),
    QueryKind("layer norm error", ERROR, 4, f.layer_norm, (10, 11), threshold=1e-2),
    QueryKind("rms norm overflow", OVER, 4, f.rms_norm),
    QueryKind("norm overflow", OVER, 2, _one(f.norm)),
    QueryKind("norm underflow", UNDER, 2, _one(f.norm)),
    QueryKind("cosine nan", NAN, 4, _one(lambda x: f.cosine_similarity(x[:2], x[2:])), (-10, 10)),
    QueryKind("normalize nan", NAN, 4, f.normalize),
    QueryKind("softplus naive inf", INF, 1, _one(lambda x: f.softplus_naive(x[0]))),
    QueryKind("softplus inf", INF, 1, _one(lambda x: apply("softplus", x[0])), (-1000, 1000)),
    QueryKind("sigmoid underflow", UNDER, 1, _one(lambda x: apply("sigmoid", x[0])), (-1000, 0)),
    QueryKind("exp overflow", OVER, 1, _one(lambda x: f.exp(x[0])), (-200, 200)),
    QueryKind("ratio nan", NAN, 4, _one(lambda x: (x[0] - x[1]) / (x[2] - x[3])), (-1000, 1000)),
    QueryKind("log of a difference inf", INF, 2, _one(lambda x: f.log(x[0] - x[1])), (0, 1000)),
    QueryKind("sum error", ERROR, 4, _one(f.total), (-1000, 1000), threshold=1e-2),
    QueryKind("dot error", ERROR, 4, _one(lambda x: f.dot(x[:2], x[2:])), (-100, 100), threshold=1e-2),
    QueryKind("expm1 naive error", ERROR, 1, _one(lambda x: f.exp(x[0]) - 1.0), (-1, 1), threshold=1e-2),
    QueryKind("exp-quotient", DIVERGE, 2, _one(lambda x: f.exp(x[0]) / f.exp(x[1])), lowering="exp-quotient"),
    QueryKind("reassociated sum", DIVERGE, 4, _one(f.total), (-100, 100), lowering="reassociate"),
    QueryKind("sigmoid naive nan", NAN, 1, _naive_sigmoid),
    QueryKind("sigmoid nan", NAN, 1, _one(lambda x: apply("sigmoid", x[0]))),
    QueryKind("tanh naive nan", NAN, 1, _naive_tanh),
    QueryKind("tanh naive error", ERROR, 1, _naive_tanh, (-1, 1), threshold=1e-2),
    QueryKind("entropy nan", NAN, 2, _entropy, (0, 1)),
    QueryKind("divergence nan", NAN, 2, _divergence, (0, 1)),
    QueryKind("relative difference nan", NAN, 2, _relative_difference),
    QueryKind("mean overflow", OVER, 4, _one(lambda x: f.total(x) / 4.0)),
    QueryKind("product underflow", UNDER, 3, _one(lambda x: x[0] * x[1] * x[2]), (1e-4, 1)),
    QueryKind("root of a square nan", NAN, 1, _one(lambda x: f.sqrt(x[0] * x[0]))),
    QueryKind("rsqrt of squares inf", INF, 2, _one(lambda x: apply("rsqrt", x[0] * x[0] + x[1] * x[1]))),
    QueryKind("one pass for two", DIVERGE, 4, _one(f.variance), (1, 100), lowering="one-pass"),
]
HARD = [
    QueryKind("pole inf", INF, 2, _pole, (0.5, 2), hard=True),
    QueryKind("pole nan", NAN, 2, _pole, (-2, 2), hard=True),
    QueryKind(
        "square root of two nan", NAN, 1, _one(lambda x: (x[0] * x[0] - 2.0) / (x[0] * x[0] - 2.0)), (0, 100), True
    ),
    QueryKind("square of 1.5 inf", INF, 1, _one(lambda x: 1.0 / (x[0] * x[0] - 2.25)), (0, 100), hard=True),
    QueryKind("product needle", INF, 2, _one(lambda x: 1.0 / (x[0] * x[1] - 7.0)), (1, 7), hard=True),
    QueryKind("cubic needle", INF, 1, _one(lambda x: 1.0 / (x[0] * x[0] * x[0] - 3.375)), (0, 10), hard=True),
    QueryKind("exp needle", INF, 1, _one(lambda x: 1.0 / (f.exp(x[0]) - 1.0)), (-1, 1), hard=True),
    QueryKind("log meets exp", INF, 2, _one(lambda x: 1.0 / (f.log(x[0]) - f.exp(x[1]))), (0.5, 20), hard=True),
    QueryKind("guarded sqrt nan", NAN, 2, _guarded, hard=True),
    QueryKind("safe log nan", NAN, 1, _one(lambda x: f.safe_log(x[0])), hard=True),
    QueryKind("hypot inf at half size", INF, 2, _one(f.norm), (-1, 1), hard=True),
    QueryKind(
        "fma nan", DIVERGE, 2, _one(lambda x: f.sqrt(x[0] * x[0] - x[1] * x[1])), (0.5, 100), True, lowering="fma"
    ),
    QueryKind("fma difference", DIVERGE, 3, _one(lambda x: x[0] * x[1] - x[2]), (1, 2), hard=True, lowering="fma"),
    QueryKind("reciprocal inf", DIVERGE, 2, _one(lambda x: x[0] / x[1]), hard=True, lowering="reciprocal"),
    QueryKind("rsqrt difference", DIVERGE, 2, _one(lambda x: x[0] / f.sqrt(x[1])), (0.5, 2), True, lowering="rsqrt"),
    QueryKind("wide product", DIVERGE, 3, _one(lambda x: x[0] * x[1] / x[2]), (1, 1000), hard=True, lowering="wide"),
    QueryKind("two needles", INF, 2, _two_needles, (1, 2), hard=True),
    QueryKind("smaller root error", ERROR, 2, _smaller_root, (0.001, 100), hard=True, threshold=0.1),
    QueryKind(
        "quotient by a quotient", DIVERGE, 3, _one(lambda x: x[0] / (x[1] / x[2])), hard=True, lowering="reciprocal"
    ),
    QueryKind("half error of a sum", ERROR, 4, _one(f.total), (-1000, 1000), hard=True, threshold=0.5),
    QueryKind("half error of a variance", ERROR, 3, _one(f.variance_one_pass), (1, 100), hard=True, threshold=0.5),
]
KINDS = [*BASE, *HARD]
