"""Legal rewrites: how compilers lower an expression, which may change its results.

Each returns equivalent roots in another lowering, or the roots unchanged if the rewrite does not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from driftline.inputs.symbolic.formats import BFLOAT16, FLOAT16, FLOAT32, Format
from driftline.inputs.symbolic.goals import PLAIN
from driftline.inputs.symbolic.graph import ExprNode, apply, cast, constant, in_order, make

NodeRewrite = Callable[[ExprNode, tuple[ExprNode, ...]], ExprNode | None]  # a node with its new operands


def rewritten(name: str, roots: Sequence[ExprNode]) -> tuple[ExprNode, ...] | None:
    """Return the roots in that lowering; None if the rewrite changes nothing."""
    if name == PLAIN:
        return tuple(roots)
    made = REWRITES[name](tuple(roots))
    return None if made == tuple(roots) else made


def _everywhere(rule: NodeRewrite) -> Callable[[tuple[ExprNode, ...]], tuple[ExprNode, ...]]:
    def rewrite(roots: tuple[ExprNode, ...]) -> tuple[ExprNode, ...]:
        new: dict[ExprNode, ExprNode] = {}
        for node in in_order(roots):
            args = tuple(new[arg] for arg in node.args)
            made = rule(node, args)
            new[node] = made if made is not None else _again(node, args)
        return tuple(new[root] for root in roots)

    return rewrite


def _again(node: ExprNode, args: tuple[ExprNode, ...]) -> ExprNode:
    return node if args == node.args else make(node.op, args, node.form, node.value, node.name)


def _fma(node: ExprNode, args: tuple[ExprNode, ...]) -> ExprNode | None:
    """Fuse a * b + c into one operation with one rounding."""
    if node.op == "add":
        for product, other in (args, args[::-1]):
            if product.op == "mul":
                return apply("fma", *product.args, other)
    if node.op == "sub" and args[0].op == "mul":
        return apply("fma", *args[0].args, -args[1])
    if node.op == "sub" and args[1].op == "mul":
        a, b = args[1].args
        return apply("fma", -a, b, args[0])
    return None


def _reassociate(node: ExprNode, args: tuple[ExprNode, ...]) -> ExprNode | None:
    """Rewrite (a + b) + c as a + (b + c), and products likewise."""
    if node.op in ("add", "mul") and args[0].op == node.op:
        a, b = args[0].args
        return apply(node.op, a, apply(node.op, b, args[1]))
    return None


def _reciprocal(node: ExprNode, args: tuple[ExprNode, ...]) -> ExprNode | None:
    """Rewrite x / y as x * (1 / y)."""
    if node.op == "div" and not (args[0].op == "constant" and args[0].value == 1):
        return apply("mul", args[0], apply("div", constant(1.0, node.format), args[1]))
    return None


def _rsqrt(node: ExprNode, args: tuple[ExprNode, ...]) -> ExprNode | None:
    """Rewrite x / sqrt(y) as x * rsqrt(y)."""
    if node.op == "div" and args[1].op == "sqrt":
        return apply("mul", args[0], apply("rsqrt", args[1].args[0]))
    return None


def _exp_quotient(node: ExprNode, args: tuple[ExprNode, ...]) -> ExprNode | None:
    """Rewrite exp(a) / exp(b) as exp(a - b)."""
    if node.op == "div" and args[0].op == args[1].op == "exp":
        return apply("exp", args[0].args[0] - args[1].args[0])
    return None


def _one_pass(node: ExprNode, args: tuple[ExprNode, ...]) -> ExprNode | None:
    """Rewrite the mean of (x - m)**2 as the mean of x**2 minus m**2."""
    if node.op != "div" or args[1].op != "constant":
        return None
    squares = _terms(args[0])
    if len(squares) < 2 or not all(t.op == "mul" and t.args[0] is t.args[1] and t.args[0].op == "sub" for t in squares):
        return None
    means = {term.args[0].args[1] for term in squares}
    if len(means) != 1:
        return None
    mean = means.pop()
    total: ExprNode | None = None
    for term in squares:
        value = term.args[0].args[0]
        total = value * value if total is None else total + value * value
    assert total is not None
    return total / args[1] - mean * mean


def _terms(node: ExprNode) -> list[ExprNode]:
    return [*_terms(node.args[0]), *_terms(node.args[1])] if node.op == "add" else [node]


_HALVES = (FLOAT16, BFLOAT16)


def _wide(roots: tuple[ExprNode, ...]) -> tuple[ExprNode, ...]:
    """Compute float16 and bfloat16 expressions in float32 throughout, as a fused kernel does, and round once at the
    end."""

    def lift(node: ExprNode, args: tuple[ExprNode, ...]) -> ExprNode | None:
        if node.op == "variable":
            return cast(node, FLOAT32) if node.form in _HALVES else node
        if node.form in _HALVES or (node.op == "cast" and node.form is FLOAT32):
            if node.op == "cast":
                return args[0]
            return constant(node.value, FLOAT32) if node.op == "constant" else make(node.op, args, FLOAT32)
        return None

    made = _everywhere(lift)(roots)
    return tuple(cast(new, root.format) for new, root in zip(made, roots, strict=True))


def _rounded_constant(roots: tuple[ExprNode, ...]) -> tuple[ExprNode, ...]:
    """Round the constants of float32 expressions to the half-precision format of the inputs."""
    storage: Format | None = next((n.form for n in in_order(roots) if n.op == "variable" and n.form in _HALVES), None)
    if storage is None:
        return roots
    half = storage

    def lower(node: ExprNode, args: tuple[ExprNode, ...]) -> ExprNode | None:
        if node.op == "constant" and node.form is FLOAT32:
            return constant(constant(node.value, half).value, FLOAT32)
        return None

    return _everywhere(lower)(roots)


REWRITES: dict[str, Callable[[tuple[ExprNode, ...]], tuple[ExprNode, ...]]] = {
    "fma": _everywhere(_fma),
    "reassociate": _everywhere(_reassociate),
    "reciprocal": _everywhere(_reciprocal),
    "rsqrt": _everywhere(_rsqrt),
    "exp-quotient": _everywhere(_exp_quotient),
    "one-pass": _everywhere(_one_pass),
    "wide": _wide,
    "rounded-constant": _rounded_constant,
}
