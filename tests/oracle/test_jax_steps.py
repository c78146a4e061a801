"""A step of a JAX program that rounding decides may fall to either side, though there is no shadow; others may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from driftline.core.tensors import Array, Arrays  # noqa: E402
from driftline.core.verdict import Judgement  # noqa: E402
from driftline.oracle.judge import ReferenceSample, TargetTraits, _judge_by_spread  # noqa: E402
from driftline.oracle.reference import measure_spread  # noqa: E402
from driftline.oracle.references.jax_reference import JaxReference  # noqa: E402
from driftline.oracle.references.jax_steps import StepArguments  # noqa: E402

if TYPE_CHECKING:
    from driftline.programs.opened import OpenedProgram

Function = Callable[[jax.Array], jax.Array]


class Opened:
    """A function of one array, opened as a program."""

    def __init__(self, function: Function, x: Array) -> None:
        self._function, self.example, self.live = function, {"x": x}, self

    def function(self, x: jax.Array) -> jax.Array:
        return self._function(x)

    def call_arguments(self, arrays: Arrays, convert: Callable[[Array], jax.Array]) -> tuple[list[jax.Array], Arrays]:
        return [convert(arrays["x"])], {}


def finds(function: Function, x: Array, change: Callable[[Array], Array]) -> bool:
    """Is the changed result of the function a finding?"""
    wide = x.dtype.itemsize == 8
    with jax.enable_x64(wide):
        reference = JaxReference(cast("OpenedProgram", Opened(function, x)))
        reference._wide = wide
        arrays = {"x": x}
        native = reference.native(arrays)
        exact, spread, note = measure_spread(reference, arrays, native)
    assert exact is not None, note
    sample = ReferenceSample(native=native, exact=exact, spread=spread)
    got = {name: change(value).astype(value.dtype) for name, value in native.items()}
    verdict = _judge_by_spread(got, native, sample, TargetTraits(calls_user_code=False, positional=False))
    return verdict.judgement is Judgement.FAIL


def less(value: Array) -> Array:
    """The first element falls to the other side."""
    changed = value.copy()
    changed[..., 0] = ~changed[..., 0] if value.dtype == bool else changed[..., 0] - 1
    return changed


def shrunk(x: jax.Array) -> jax.Array:
    return x - jax.numpy.tanh(x)


# Nothing but rounding remains of the first element.
STEPS: dict[str, Function] = {
    "floor": lambda x: jax.numpy.floor(shrunk(x)),
    "sign": lambda x: jax.numpy.sign(shrunk(x)),
    "a comparison": lambda x: shrunk(x) >= 0,
    "select": lambda x: jax.numpy.where(shrunk(x) < 0, 1.0, 2.0),
    "a cast": lambda x: jax.numpy.exp(jax.numpy.log(x + 3.0)).astype("int32"),
    "a loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, y: jax.numpy.floor(y - jax.numpy.tanh(y)), x),
    "a branch": lambda x: jax.lax.cond(shrunk(x)[0] < 0, lambda: x - 1.0, lambda: x),
}
SMALL = np.array([1e-116, 0.9, -1.7, 2.3])


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_what_rounding_leaves(name: str) -> None:
    """XLA keeps more digits in a fused loop, and comes to -1e-132."""
    assert not finds(STEPS[name], SMALL, less)
    if name != "a branch":  # which decides for all elements
        assert finds(STEPS[name], SMALL, lambda value: less(value[::-1])[::-1])
    assert not finds(STEPS[name], SMALL, lambda value: value)


def test_a_step_of_floats_in_single_precision() -> None:
    x = np.array([1e-20, 0.9, -1.7, 2.3], np.float32)
    assert not finds(STEPS["floor"], x, less)
    assert finds(STEPS["floor"], x, lambda value: value - np.array([0, 0, 0, 1], np.float32))


def test_the_largest_of_nearly_equal_elements() -> None:
    x = np.array([[0.3, 0.3, 0.1], [0.9, 0.3, 0.1]])
    places: Function = lambda x: jax.numpy.argmax(jax.numpy.sin(x) * 3.0, axis=-1)  # noqa: E731
    assert not finds(places, x, lambda value: np.array([1, 0]))
    assert finds(places, x, lambda value: np.array([2, 0]))
    assert finds(places, x, lambda value: np.array([0, 1]))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_step_of_exact_numbers_is_judged(dtype: str) -> None:
    """Sums, products and quotients that fit their type are not rounded, so no step after them is open."""
    x = np.array([1, 2, 3], dtype)
    assert finds(lambda x: jax.numpy.floor((x * 4.0 - 1.0) / 2.0 + 0.5), x, less)
    assert finds(lambda x: x / 2.0 >= 0.5, x, less)
    assert not finds(lambda x: x / 10.0 * 10.0 >= 1.0, x, less)


def test_a_run_on_another_path_moves_no_step() -> None:
    steps = StepArguments([[np.zeros(3)]], [[np.zeros(3)]])
    steps.observe(0, [np.ones(4)])
    steps.observe(1, [np.ones(3)])
    assert not steps.reach[0][0].any()
    steps.observe(0, [np.array([0.5, np.nan, -1.0])])
    assert steps.reach[0][0].tolist() == [0.5, 0.0, 1.0]


def test_what_has_no_step_is_judged_as_before() -> None:
    assert finds(lambda x: shrunk(x) + 1.0, SMALL, less)
    assert finds(lambda x: jax.numpy.exp(x), SMALL, lambda value: value * (1 + 1e-12))


def test_a_loop_whose_condition_is_pushed_ends() -> None:
    """Pushed up, the difference never gets below what it is compared with."""

    def halved(x: jax.Array) -> jax.Array:
        state = (x, x + 1.0)
        return jax.lax.while_loop(lambda s: jax.numpy.any(s[1] - s[0] > 0), lambda s: (s[1], s[1] / 3.0 * 3.0), state)[
            0
        ]

    assert not finds(halved, SMALL, lambda value: value)
    assert finds(halved, SMALL, less)
