"""The generator `chains`: common operators in sequence, such that each reads the result of every other one.

Fusions are written for pairs of adjacent operators. Random programs draw from hundreds of operators, and most pairs
never come up in a hunt; here the common ones are visited in an order that covers all pairs with few repetitions. A
program is a chain of a few operators; where an operator cannot read the result before it, or the chain since the last
input is too long, both operators start on a new input.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from functools import cache

from driftline.generate.base import Blueprint, Generator, GeneratorRequest, NoProgram
from driftline.generate.blueprint import LANGUAGE
from driftline.generate.operator import FLOATS, Draw, LargeDraw, Operator
from driftline.generate.random_graph import GraphBuilder, varied
from driftline.generate.table import OPERATORS
from driftline.generate.transforms import drawn_transform

CHAINS = "chains"
LENGTH = 6  # operators of a program
DEEPEST = 3  # operators between an input and a result: after more of them most numbers are NaN, infinite or alike
COMMON = (
    "relu", "sigmoid", "tanh", "gelu", "silu", "leaky_relu", "hardswish", "softplus", "elu", "clamp", "neg", "abs",
    "sign", "square", "sqrt", "rsqrt", "reciprocal", "exp", "log", "log1p", "sin", "cos", "erf", "floor", "ceil",
    "round", "add", "sub", "mul", "div", "pow", "maximum", "minimum", "add_scalar", "sub_scalar", "mul_scalar",
    "div_scalar", "pow_scalar", "where", "masked_fill", "eq", "lt", "ge", "logical_not", "isnan", "cast", "sum",
    "mean", "prod", "amax", "amin", "var", "norm_l2", "argmax", "cumsum", "softmax", "log_softmax", "logsumexp", "mm",
    "bmm", "matmul", "linear", "conv2d", "layer_norm", "batch_norm", "max_pool2d", "avg_pool2d", "transpose",
    "permute", "reshape", "flatten", "squeeze", "unsqueeze", "expand", "concat", "stack", "slice", "narrow", "select",
    "split", "pad_constant", "gather", "index_select", "flip", "tile", "sort", "topk", "tril",
)  # fmt: skip
_DTYPES = ("float32",) * 6 + ("float16", "bfloat16", "float64", "int32", "int64")
_LARGE_SHARE = 0.15
_GRADIENT_SHARE = 0.15
_TRIES = 6


class Chains(Generator):
    name = CHAINS
    needs_framework = False

    def arms(self, form: str) -> Sequence[str]:
        return [CHAINS] if _common(LANGUAGE[form]) else []

    def make(self, request: GeneratorRequest) -> Blueprint:
        language = LANGUAGE[request.form]
        rng = random.Random(f"{request.seed}/{request.form}/{CHAINS}/{request.number}")
        dtype = rng.choice(_DTYPES)
        draw = LargeDraw(rng) if rng.random() < _LARGE_SHARE else Draw(rng)
        grad = language == "torch" and dtype in FLOATS and rng.random() < _GRADIENT_SHARE
        builder = GraphBuilder(language, rng, request.avoid, draw, grad=grad)
        chain = Chain(builder, language, dtype, request.avoid)
        for name in chain_of(language, request.seed, request.number):
            chain.add(OPERATORS[name])
        return varied(drawn_transform(builder.finish(), request), request.form)


def chain_of(language: str, seed: int, number: int) -> list[str]:
    """Return the operators of program `number`. The programs of a round step through a random order of all operators,
    each with one stride; after `programs_of_a_round` programs all pairs have been used."""
    everything = _common(language)
    count = _prime_from(len(everything))  # so that each stride comes by every operator
    turn, at = divmod(number, programs_of_a_round(count))
    rng = random.Random(f"{seed}/{language}/{CHAINS}/{turn}")
    order = [*everything, *rng.sample(everything, count - len(everything))]
    rng.shuffle(order)
    starts, strides = [rng.randrange(count) for _ in order], rng.sample(range(count), count)
    segment, which = divmod(at, count)
    stride = strides[which]
    first = starts[which] + segment * (LENGTH - 1) * (stride or 1)
    chain = [order[(first + step * (stride or 1)) % count] for step in range(LENGTH)]
    return chain if stride else [name for name in chain[:-1] for _ in range(2)]  # each by itself, twice


def whole_round(language: str) -> int:
    """Return the number of programs until all pairs of common operators were used."""
    return programs_of_a_round(_prime_from(len(_common(language))))


def programs_of_a_round(count: int) -> int:
    """Return the number of programs until each of `count` operators has read every other one."""
    return count * -(-count // (LENGTH - 1))


class Chain:
    """Builds a chain of operators."""

    def __init__(self, builder: GraphBuilder, language: str, dtype: str, avoid: frozenset[str]) -> None:
        self._builder, self._language, self._dtype, self._avoid = builder, language, dtype, avoid
        self._before: Operator | None = None
        self._depth = 0  # operators since the last input

    def add(self, operator: Operator) -> None:
        """Apply the operator to the last result. If that is not possible, apply the operator before it and then this
        one to a new input, or else this one alone."""
        before, self._before = self._before, operator
        if before is not None:
            if self._depth < DEEPEST and self._applied(operator):
                return
            for _ in range(_TRIES):
                mark = self._builder.mark()
                if self._begun(before) and self._applied(operator):
                    return
                self._builder.undo(mark)
        if not self._begun(operator):
            self._before = None

    def _applied(self, operator: Operator) -> bool:
        applied = bool(self._builder.nodes) and self._builder.apply_to_last(operator)
        self._depth += applied
        return applied

    def _begun(self, operator: Operator) -> bool:
        form = operator.form(self._language)
        dtypes = [d for d in form.dtypes if f"{operator.name} {d}" not in self._avoid] if form else []
        if not dtypes:
            return False
        try:
            self._builder.begin(operator, [self._dtype] if self._dtype in dtypes else dtypes)
        except NoProgram:
            return False
        self._depth = 1
        return True


@cache
def _common(language: str) -> list[str]:
    return [name for name in COMMON if OPERATORS[name].form(language)]


def _prime_from(count: int) -> int:
    return next(n for n in itertools.count(max(count, 2)) if all(n % d for d in range(2, int(n**0.5) + 1)))
