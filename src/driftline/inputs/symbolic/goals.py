"""Goals of a search, and queries: a goal for nodes of a graph, with ranges of the variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np

from driftline.core.errors import DriftlineError
from driftline.core.tensors import Array
from driftline.core.text import did_you_mean
from driftline.inputs.symbolic.evaluate import NodeValues, evaluate_order
from driftline.inputs.symbolic.formats import Format
from driftline.inputs.symbolic.graph import ExprNode, in_order


class GoalKind(StrEnum):
    NAN = "nan"
    INF = "inf"
    OVERFLOW = "overflow"
    UNDERFLOW = "underflow"
    ERROR = "error"
    DIVERGE = "diverge"


PLAIN = "plain"  # the program as it is written, beside the names of rewrites
DEFAULT_ERROR = 1e-2


@dataclass(frozen=True)
class Goal:
    """A goal. `error` has a threshold; `diverge` has two lowerings, and as threshold the relative difference that
    counts (0: default)."""

    kind: GoalKind
    threshold: float = 0.0
    left: str = ""
    right: str = ""

    def __str__(self) -> str:
        if self.kind is GoalKind.ERROR:
            return f"error:{self.threshold:g}"
        return f"diverge:{self.left}/{self.right}" if self.left else str(self.kind)


@dataclass(frozen=True)
class Query:
    """Asks whether one of `roots` can reach the goal while the variables stay in their ranges (default: every finite
    float).

    For `diverge`, `others` are the same results by the other lowering. Overflow and underflow count anywhere below the
    roots; if `local`, only in the last operation (a whole sum counts as one operation).
    """

    goal: Goal
    roots: tuple[ExprNode, ...]
    others: tuple[ExprNode, ...] = ()
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    local: bool = False

    @cached_property
    def order(self) -> list[ExprNode]:
        return in_order([*self.roots, *self.others])

    @cached_property
    def variables(self) -> list[ExprNode]:
        return [node for node in self.order if node.op == "variable"]

    @cached_property
    def watched(self) -> list[ExprNode]:
        """The nodes in which overflow and underflow count."""
        if not self.local:
            return self.order
        found: dict[ExprNode, None] = {}
        stack = list(self.roots)
        while stack:
            node = stack.pop()
            found[node] = None
            through = node.op == "cast" or node.op == "add"
            stack.extend(arg for arg in node.args if through and arg.op in (node.op, "add") and arg not in found)
        return list(found)

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """The smallest and the largest ordinal of each variable."""
        low, high = [], []
        for node in self.variables:
            form = node.format
            least, most = self.ranges.get(node.name, (-form.largest, form.largest))
            ends = form.ordinal_of(np.clip(np.array([least, most]), -form.largest, form.largest))
            low.append(int(ends[0]))
            high.append(int(ends[1]))
        return np.array(low, np.int64), np.array(high, np.int64)

    def numbers(self, ordinals: Array) -> dict[str, Array]:
        """Return the values of the variables, from one row of ordinals for each run."""
        return {node.name: node.format.value_of(ordinals[:, at]) for at, node in enumerate(self.variables)}

    def run(self, given: Mapping[str, Array]) -> tuple[NodeValues, NodeValues]:
        """Evaluate the query. Returns the values of all nodes, and their values in float64 if the goal is an error
        (else empty)."""
        values = evaluate_order(self.order, given)
        return values, evaluate_order(self.order, given, exact=True) if self.goal.kind is GoalKind.ERROR else {}

    def hits(self, given: Mapping[str, Array]) -> Array:
        """Return, for each run, whether it reaches the goal."""
        size = np.broadcast_shapes(*(np.shape(value) for value in given.values()), (1,))
        return np.broadcast_to(reached(self, *self.run(given)), size)


def parse_goals(text: str, rewrites: Sequence[str]) -> tuple[Goal, ...]:
    """Parse goals such as `nan,inf,error:1e-2,diverge:plain/fma`. `diverge` alone compares every rewrite with the plain
    form."""
    goals: list[Goal] = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        goals += _parsed(part, rewrites)
    if not goals:
        raise DriftlineError(f"--goal: name a goal, such as nan or error:1e-2. Known: {', '.join(GoalKind)}.")
    return tuple(dict.fromkeys(goals))


def _parsed(part: str, rewrites: Sequence[str]) -> list[Goal]:
    name, _, rest = part.partition(":")
    if name not in list(GoalKind):
        raise DriftlineError(
            f"--goal {part}: there is no such goal.{did_you_mean(name, GoalKind)} Known: {', '.join(GoalKind)}."
        )
    kind = GoalKind(name)
    if kind is GoalKind.ERROR:
        try:
            threshold = float(rest or DEFAULT_ERROR)
        except ValueError:
            threshold = -1.0
        if not 0 < threshold < float("inf"):
            raise DriftlineError(f"--goal {part}: give a relative error above zero, as in error:1e-2.")
        return [Goal(kind, threshold)]
    if kind is not GoalKind.DIVERGE:
        if rest:
            raise DriftlineError(f"--goal {part}: {name} takes no value; write {name}.")
        return [Goal(kind)]
    if not rest:
        return [Goal(kind, 0.0, PLAIN, rewrite) for rewrite in rewrites]
    left, slash, right = rest.partition("/")
    left, right = (left, right) if slash else (PLAIN, left)
    known = (PLAIN, *rewrites)
    for side in (left, right):
        if side not in known:
            hint = did_you_mean(side, known)
            raise DriftlineError(f"--goal {part}: there is no lowering {side!r}.{hint} Known: {', '.join(known)}.")
    if left == right:
        raise DriftlineError(f"--goal {part}: name two different lowerings.")
    return [Goal(kind, 0.0, left, right)]


def reached(query: Query, values: NodeValues, exact: NodeValues) -> Array:
    """Return, for each run, whether the evaluated values reach the goal of the query."""
    kind = query.goal.kind
    with np.errstate(all="ignore"):
        if kind is GoalKind.NAN:
            return _any(np.isnan(values[root]) for root in query.roots)
        if kind is GoalKind.INF:
            return _any(np.isinf(values[root]) for root in query.roots)
        if kind is GoalKind.OVERFLOW:
            return _any(overflows(node, values) for node in query.watched if node.op in OVERFLOWING)
        if kind is GoalKind.UNDERFLOW:
            return _any(underflows(node, values) for node in query.watched if node.op in UNDERFLOWING)
        if kind is GoalKind.ERROR:
            return _any(relative_error(root, values, exact) > query.goal.threshold for root in query.roots)
        pairs = zip(query.roots, query.others, strict=True)
        return _any(diverges(query, root, values[root], values[other]) for root, other in pairs)


OVERFLOWING = frozenset({"add", "sub", "mul", "div", "fma", "exp", "exp2", "expm1", "pow", "cast"})
UNDERFLOWING = frozenset({"mul", "div", "fma", "exp", "exp2", "sigmoid", "softplus", "pow", "cast"})


def overflows(node: ExprNode, values: NodeValues) -> Array:
    """Return where the result is infinite because the number is too large: operands are finite and it is not a pole."""
    found = np.isinf(values[node])
    for arg in node.args:
        found = found & np.isfinite(values[arg])
    if node.op == "div":
        found = found & (values[node.args[1]] != 0)
    if node.op == "pow":
        found = found & (values[node.args[0]] != 0)
    return found


def underflows(node: ExprNode, values: NodeValues) -> Array:
    """Return where the result is zero or subnormal although its operands are finite and normal, so that digits are
    lost."""
    found = np.abs(values[node]) < node.format.smallest_normal
    operands = node.args if node.op in ("mul", "div", "fma", "cast") else node.args[:0]
    for arg in operands:
        found = found & (np.abs(values[arg]) >= arg.format.smallest_normal) & np.isfinite(values[arg])
    for arg in node.args:
        found = found & np.isfinite(values[arg])
    if node.op == "pow":
        found = found & (values[node.args[0]] != 0)
    return found


def relative_error(root: ExprNode, values: NodeValues, exact: NodeValues) -> Array:
    """Return the relative error against float64; zero where either result is not finite or the exact one is out of the
    normal range."""
    value, truth = np.asarray(values[root], np.float64), np.asarray(exact[root], np.float64)
    error = np.abs(value - truth) / np.abs(truth)
    fine = np.isfinite(value) & (np.abs(truth) >= root.format.smallest_normal) & (np.abs(truth) <= root.format.largest)
    return np.where(fine, error, 0.0)


def tolerated(query: Query, form: Format) -> float:
    """Return the relative difference up to which two lowerings count as equal."""
    return query.goal.threshold or (1e-2 if form.significand > 12 else 1e-1)


def diverges(query: Query, root: ExprNode, left: Array, right: Array) -> Array:
    """Return where only one result is NaN, only one is infinite, or both are finite and far apart."""
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    size = np.maximum(np.abs(left), np.abs(right))
    apart = (np.abs(left - right) > tolerated(query, root.format) * size) & (size >= root.format.smallest_normal)
    both = np.isfinite(left) & np.isfinite(right)
    return (np.isnan(left) != np.isnan(right)) | (np.isinf(left) != np.isinf(right)) | (both & apart)


def _any(parts: object) -> Array:
    found: Array = np.zeros((1,), bool)
    for part in parts:  # type: ignore[attr-defined]
        found = found | part
    return found
