"""What each operation computes: on arrays in the carrier of its format, rounded to the format.

+ - * / fma and sqrt are rounded once, as IEEE 754 requires. Other functions are computed in float64 and then rounded,
which gives the nearest float in nearly all cases, while libraries are often one or two ULP off. Witnesses are therefore
also confirmed with the real operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from driftline.core.tensors import Array
from driftline.inputs.symbolic.formats import Format

_erf = np.frompyfunc(math.erf, 1, 1)


def _sigmoid(x: Array) -> Array:
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


# By name: the function in float64. Rising ones keep the order of their arguments.
FUNCTIONS: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": lambda x: np.asarray(_erf(x), np.float64),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "pow": np.power,
}
RISING = frozenset({"exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "sigmoid", "erf", "softplus"})
# The least and the greatest value that a function can have, whatever its last digit is.
RANGES = {
    "exp": (0.0, np.inf), "exp2": (0.0, np.inf), "expm1": (-1.0, np.inf), "tanh": (-1.0, 1.0), "sigmoid": (0.0, 1.0),
    "erf": (-1.0, 1.0), "softplus": (0.0, np.inf), "rsqrt": (0.0, np.inf), "sin": (-1.0, 1.0), "cos": (-1.0, 1.0),
}  # fmt: skip
# Below this argument a function is not a number.
STARTS = {"log": 0.0, "log2": 0.0, "log1p": -1.0, "sqrt": 0.0, "rsqrt": 0.0}

_ARITHMETIC: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "sqrt": np.sqrt,
}
_EXACT: dict[str, Callable[..., Array]] = {  # no rounding; minimum and maximum pass NaN on, as torch does
    "neg": np.negative,
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "where": np.where,
}
_TRUTHS: dict[str, Callable[..., Array]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
}  # fmt: skip
OPERATORS = frozenset({*FUNCTIONS, *_ARITHMETIC, *_EXACT, *_TRUTHS, "fma", "cast"})


def compute(op: str, form: Format | None, args: Sequence[Array]) -> Array:
    """Compute one operation, rounded to `form`. Callers should silence numpy warnings, as `evaluate` does."""
    if form is None:
        return np.asarray(_TRUTHS[op](*args))
    if op in _EXACT:
        return np.asarray(_EXACT[op](*args), form.carrier)
    with np.errstate(all="ignore"):
        if op in _ARITHMETIC:
            return form.round(_ARITHMETIC[op](*args))
        if op == "cast":
            return form.round(args[0])
        if op == "fma":
            return _fma(form, *args)
        return form.round(FUNCTIONS[op](*(np.asarray(arg, np.float64) for arg in args)))


def _fma(form: Format, a: Array, b: Array, c: Array) -> Array:
    """Return a * b + c with a single rounding."""
    if form.name == "float64":
        return np.asarray(np.frompyfunc(_fma_of_doubles, 3, 1)(a, b, c), np.float64)
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)  # exact: twice 24 bits fit
    other = np.asarray(c, np.float64)
    total = product + other
    # Round to odd: a sum that is not exact gets an odd last bit, and the second rounding cannot go wrong.
    back = total - product
    rest = (product - (total - back)) + (other - back)
    bits = np.ascontiguousarray(total).view(np.int64)
    inexact = np.isfinite(total) & (rest != 0) & ((bits & 1) == 0)
    towards = np.where(rest > 0, np.inf, -np.inf)
    return form.round(np.where(inexact, np.nextafter(total, towards), total))


def _fma_of_doubles(a: float, b: float, c: float) -> float:
    a, b, c = float(a), float(b), float(c)
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return a * b + c  # the sign of a zero
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
