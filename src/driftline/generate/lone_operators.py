"""The generator `alone`: every operator by itself, in each circumstance that compilers handle specially.

The programs of an operator are numbered: first in its first dtype on plain inputs; then, in an order that differs
between operators, with a long axis, with its gradient, with other memory layouts, under transformations (JAX), on
inputs without elements; then in its other dtypes. Operators that compute along an axis start with the longest axis and
the empty one. The number of programs is finite.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from driftline.generate.base import Blueprint, Generator, GeneratorRequest, NoProgram
from driftline.generate.blueprint import LANGUAGE, blueprint
from driftline.generate.graph import TensorType
from driftline.generate.kernels import kernels
from driftline.generate.operator import FLOATS, Draw, EmptyDraw, Invalid, LargeDraw, LongestDraw, Operator
from driftline.generate.random_graph import UNROLLED, GraphBuilder, varied
from driftline.generate.table import OPERATORS
from driftline.generate.transforms import GRADIENT, TRANSFORMS, under

ALONE = "alone"
_DRAWS: dict[str, type[Draw]] = {"long axis": LargeDraw, "longest axis": LongestDraw, "empty": EmptyDraw}
EXTREME = ("longest axis", "empty")
LAYOUTS = ("transposed", "strided", "expanded")


@dataclass(frozen=True)
class Circumstance:
    """How an operator is tried: the dtype, and the special circumstance if any."""

    dtype: str
    special: str = ""  # long or longest axis, gradient, one of LAYOUTS or TRANSFORMS, empty; nothing for plain inputs


class LoneOperators(Generator):
    name = ALONE
    needs_framework = False

    def arms(self, form: str) -> Sequence[str]:
        return [name for name, operator in OPERATORS.items() if operator.form(LANGUAGE[form])]

    def make(self, request: GeneratorRequest) -> Blueprint:
        operator, language = OPERATORS[request.arm], LANGUAGE[request.form]
        tried = circumstances(operator, language)
        if request.number >= len(tried):
            raise NoProgram(f"{request.arm} was tried in every way")
        wanted = tried[request.number]
        if f"{request.arm} {wanted.dtype}" in request.avoid:
            raise NoProgram(f"{request.arm} of {wanted.dtype} is to be avoided")
        rng = random.Random(f"{request.seed}/{request.form}/{ALONE}/{request.arm}/{request.number}")
        layout = wanted.special if wanted.special in LAYOUTS else "contiguous"
        draw = _DRAWS.get(wanted.special, Draw)(rng)
        builder = GraphBuilder(language, rng, frozenset(), draw, grad=wanted.special == "gradient", layout=layout)
        builder.add_alone(operator, wanted.dtype)
        graph = under(builder.finish(), wanted.special if wanted.special in TRANSFORMS else "")
        return blueprint(graph, request.form) if wanted.special else varied(graph, request.form)


def circumstances(operator: Operator, language: str) -> list[Circumstance]:
    """List the circumstances in which an operator is tried, in their order."""
    form = operator.form(language)
    if form is None:
        return []
    first, *others = form.dtypes
    specials = _specials(operator, language, first)
    early = [name for name in EXTREME if name in specials] if _computes_along_an_axis(operator, first) else []
    late = [name for name in specials if name not in early]
    turn = sum(operator.name.encode()) % max(1, len(late))  # so that a short hunt covers all of them
    specials = ["", *early, *late[turn:], *late[:turn]]
    return [*(Circumstance(first, special) for special in specials), *(Circumstance(dtype) for dtype in others)]


def _specials(operator: Operator, language: str, dtype: str) -> list[str]:
    """List the special circumstances that an operator supports beside plain inputs."""
    found = [] if operator.name in UNROLLED else ["long axis", "longest axis"]
    smooth = operator.differentiable and dtype in FLOATS
    if language == "torch":
        found += ["gradient"] if smooth and not operator.inplace else []
        found += LAYOUTS[0 if operator.rank[1] >= 2 else 1 :] if operator.first_values == "any" else []
    if language == "jnp":
        found += [name for name in TRANSFORMS if smooth or name != GRADIENT]
    if any(operator.fits(TensorType(dtype, (0, *[4] * (rank - 1)))) for rank in range(1, operator.rank[1] + 1)):
        found.append("empty")
    return found


def _computes_along_an_axis(operator: Operator, dtype: str) -> bool:
    """True if the operator computes along an axis, so that the length of the axis decides its code path."""
    low, high = operator.rank
    given = TensorType(dtype, (4,) * max(low, min(2, high)))
    try:
        _, attributes = operator.draw(Draw(random.Random(0)), given) if operator.fits(given) else ((), {})
    except Invalid:
        return False
    return not {"axis", "axes"}.isdisjoint(attributes) and bool(kernels(operator.name))


def lone_programs(form: str) -> dict[str, int]:
    """Count the programs that try an operator alone, by operator."""
    language = LANGUAGE[form]
    counts = {name: len(circumstances(operator, language)) for name, operator in OPERATORS.items()}
    return {name: count for name, count in counts.items() if count}
