"""Small tensor functions as scalar graphs: they take rows of nodes and return a row of nodes.

`accumulate` is the format of sums, by default that of the operands; kernels for float16 and bfloat16 accumulate in
float32 (`formats.wider`).
"""

from __future__ import annotations

from collections.abc import Sequence

from driftline.inputs.symbolic.formats import Format
from driftline.inputs.symbolic.graph import ExprNode, apply, cast, constant, variable, where

Row = Sequence[ExprNode]


def variables(count: int, form: Format, name: str = "x") -> list[ExprNode]:
    """Return `count` variables named `x0`, `x1`, ..."""
    return [variable(f"{name}{at}", form) for at in range(count)]


def exp(x: ExprNode) -> ExprNode:
    return apply("exp", x)


def log(x: ExprNode) -> ExprNode:
    return apply("log", x)


def sqrt(x: ExprNode) -> ExprNode:
    return apply("sqrt", x)


def total(row: Row, accumulate: Format | None = None) -> ExprNode:
    """Sum the row from left to right."""
    form = row[0].format
    terms = [cast(x, accumulate or form) for x in row]
    found = terms[0]
    for term in terms[1:]:
        found = found + term
    return cast(found, form)


def pairwise(row: Row) -> ExprNode:
    """Sum the row pairwise, by splitting it in two repeatedly, as kernels do for long rows."""
    if len(row) == 1:
        return row[0]
    half = 1 << ((len(row) - 1).bit_length() - 1)
    return pairwise(row[:half]) + pairwise(row[half:])


def mean(row: Row, accumulate: Format | None = None) -> ExprNode:
    form = row[0].format
    wide = accumulate or form
    return cast(total([cast(x, wide) for x in row]) / float(len(row)), form)


def dot(a: Row, b: Row, accumulate: Format | None = None) -> ExprNode:
    form = a[0].format
    wide = accumulate or form
    return cast(total([cast(x, wide) * cast(y, wide) for x, y in zip(a, b, strict=True)]), form)


def greatest(row: Row) -> ExprNode:
    found = row[0]
    for x in row[1:]:
        found = apply("max", found, x)
    return found


def softmax_naive(row: Row, accumulate: Format | None = None) -> list[ExprNode]:
    powers = [exp(x) for x in row]
    below = total(powers, accumulate)
    return [power / below for power in powers]


def softmax(row: Row, accumulate: Format | None = None) -> list[ExprNode]:
    top = greatest(row)
    return softmax_naive([x - top for x in row], accumulate)


def logsumexp_naive(row: Row) -> ExprNode:
    return log(total([exp(x) for x in row]))


def logsumexp(row: Row) -> ExprNode:
    top = greatest(row)
    return top + log(total([exp(x - top) for x in row]))


def log_softmax_naive(row: Row) -> list[ExprNode]:
    return [log(x) for x in softmax_naive(row)]


def log_softmax(row: Row) -> list[ExprNode]:
    below = logsumexp(row)
    return [x - below for x in row]


def cross_entropy_naive(row: Row, label: int = 0) -> ExprNode:
    return -log(softmax_naive(row)[label])


def cross_entropy(row: Row, label: int = 0) -> ExprNode:
    return -log_softmax(row)[label]


def norm(row: Row, accumulate: Format | None = None) -> ExprNode:
    return sqrt(dot(row, row, accumulate))


def variance(row: Row) -> ExprNode:
    """Compute the variance in two passes: the mean of the squared differences from the mean."""
    middle = mean(row)
    return mean([(x - middle) * (x - middle) for x in row])


def variance_one_pass(row: Row) -> ExprNode:
    middle = mean(row)
    return mean([x * x for x in row]) - middle * middle


def layer_norm(row: Row, eps: float = 1e-5, *, one_pass: bool = False) -> list[ExprNode]:
    """Normalise a row by its mean and variance. Batch norm does the same with the values of one channel."""
    middle = mean(row)
    below = sqrt((variance_one_pass(row) if one_pass else variance(row)) + eps)
    return [(x - middle) / below for x in row]


batch_norm = layer_norm


def rms_norm(row: Row, eps: float = 1e-5) -> list[ExprNode]:
    """Divide the row by its root mean square."""
    below = apply("rsqrt", mean([x * x for x in row]) + eps)
    return [x * below for x in row]


def normalize(row: Row, eps: float = 1e-12) -> list[ExprNode]:
    """Divide the row by its norm, or by `eps` if that is larger. float16 rounds 1e-12 to zero."""
    size = norm(row)
    below = apply("max", size, constant(eps, size.format))
    return [x / below for x in row]


def cosine_similarity(a: Row, b: Row, eps: float | None = None) -> ExprNode:
    below = norm(a) * norm(b)
    if eps is not None:
        below = apply("max", below, constant(eps, below.format))
    return dot(a, b) / below


def softplus_naive(x: ExprNode) -> ExprNode:
    return log(1.0 + exp(x))


def relu(x: ExprNode) -> ExprNode:
    return apply("max", x, constant(0.0, x.format))


def safe_log(x: ExprNode) -> ExprNode:
    """Return the logarithm of a positive number, and zero for any other."""
    zero = constant(0.0, x.format)
    return where(apply("gt", x, zero), log(x), zero)
