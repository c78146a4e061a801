"""The strategy: operators are a list that Hypothesis draws, and every other choice is one of its random numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from driftline.core.errors import DriftlineError
from driftline.core.text import did_you_mean
from driftline.generate.base import FORMS, NoProgram
from driftline.generate.blueprint import LANGUAGE, blueprint
from driftline.generate.operator import Draw, T
from driftline.generate.random_graph import drawn_graph
from driftline.generate.table import OPERATORS
from driftline.inputs.strategies import INPUTS
from driftline.strategies.drawn import DrawnProgram

try:
    import hypothesis.strategies as st
    from hypothesis import HealthCheck, reject, settings
except ImportError as error:
    raise ImportError(
        "driftline.strategies needs Hypothesis, which is not installed: pip install 'driftline[hypothesis]'."
    ) from error

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_VALUES = ("random", "boundary", "specials")  # the simplest first
_SEEDS = 2**16


class ShrinkingDraw(Draw):
    """Random choices in a form that Hypothesis can shrink: integers, towards the first option, the lowest number, and
    False for `chance`."""

    def choice(self, options: Sequence[T]) -> T:
        return options[self.rng.randrange(len(options))]

    def integer(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def chance(self, probability: float) -> bool:
        return self.rng.random() > 1.0 - probability


def programs(
    form: str = "torch",
    *,
    operators: Iterable[str] | None = None,
    dtypes: Iterable[str] | None = None,
    min_size: int = 1,
    max_size: int = 8,
    grad: bool = False,
    values: Sequence[str] = _VALUES,
) -> SearchStrategy[DrawnProgram]:
    """Return a strategy of valid programs of the operator table, each with matching inputs.

    `form`: torch, onnx or jax. `operators`: names of the table (default: all that the form supports). `dtypes`: of the
    input tensors (default: all). `min_size` and `max_size`: limits on the number of operators. `grad`: make torch
    programs whose gradients are compared too. `values`: how inputs are filled: random, boundary (the edges of the
    operators' domains), specials (NaN, infinities, extremes).
    """
    if form not in FORMS:
        raise DriftlineError(f"form={form!r}: programs are written as {', '.join(FORMS)}.{did_you_mean(form, FORMS)}")
    if not 1 <= min_size <= max_size:
        raise DriftlineError(f"min_size={min_size}, max_size={max_size}: give 1 <= min_size <= max_size.")
    if grad and form != "torch":
        raise DriftlineError("grad=True: only torch programs have gradients that are compared; leave it out.")
    for name in values:
        INPUTS.get(name)
    wanted = frozenset(dtypes or ())
    names = _chosen(form, operators, wanted)
    drawn = st.tuples(
        st.lists(st.sampled_from(names), min_size=min_size, max_size=max_size),
        st.randoms(use_true_random=False),
        st.sampled_from(list(values)),
        st.integers(0, _SEEDS),
    )
    return drawn.map(lambda parts: _made(form, wanted, grad, *parts))


def _chosen(form: str, operators: Iterable[str] | None, dtypes: frozenset[str]) -> list[str]:
    """Return the chosen operators that the form and dtypes support, in the table's order: the first is the simplest."""
    language = LANGUAGE[form]
    forms = {name: written for name, one in OPERATORS.items() if (written := one.form(language))}
    known = {dtype for written in forms.values() for dtype in written.dtypes}
    for dtype in dtypes:
        if dtype not in known:
            raise DriftlineError(f"dtypes: {dtype!r} is none of {form} programs.{did_you_mean(dtype, known)}")
    asked = list(operators) if operators is not None else []
    for name in asked:
        if name not in forms:
            raise DriftlineError(f"operators: {name!r} has no form in {form} programs.{did_you_mean(name, forms)}")
    chosen = [
        name
        for name, written in forms.items()
        if (operators is None or name in asked) and (not dtypes or dtypes & set(written.dtypes))
    ]
    if not chosen:
        raise DriftlineError(f"No operator that was asked for exists in {' or '.join(sorted(dtypes)) or form}.")
    return chosen


def _made(
    form: str, dtypes: frozenset[str], grad: bool, names: list[str], rng: Any, values: str, seed: int
) -> DrawnProgram:
    try:
        graph = drawn_graph(names, form, ShrinkingDraw(rng), dtypes=dtypes, grad=grad)
    except NoProgram:
        reject()
    made = blueprint(graph, form)
    drawn = INPUTS.get(values).draw(made.inputs, str(seed), made.edges)
    return DrawnProgram(form, made.content, drawn.arrays, graph, made.grad)


def compiler_settings(max_examples: int = 50, **more: Any) -> settings:
    """Return Hypothesis settings for tests that compile: no deadline, no complaint about slow or discarded examples.
    Use it above `@given` in place of `hypothesis.settings`, whose arguments it accepts."""
    checks = [
        HealthCheck.function_scoped_fixture,
        HealthCheck.differing_executors,
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
    ]
    return settings(**{"deadline": None, "suppress_health_check": checks, **more}, max_examples=max_examples)
